/* Every prefix of each file (of large ones some 4096), and every other value of every byte of its
 * header, through everything that fuzz_open.c does. Each must give an answer, in memory that is in
 * proportion to the file; and the file itself must give one when any one allocation fails, and
 * those after it.
 *
 *   sweep [-l LIMIT] FILE...
 *
 * -l: change at most the first LIMIT bytes (by default the whole header, to the start of the data).
 * Memory is measured when it is built with SWEEP_WRAP and the linker's help:
 *
 *   cc -DSWEEP_WRAP -fsanitize=address,undefined -Icsrc/include csrc/[a-z]*.c
 *      tests/fuzz/fuzz_open.c tests/fuzz/sweep.c -lm -lpthread
 *      -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glpcore.h"

int glpcore_fuzz_one(const uint8_t *data, size_t size);

/* ---- Memory ---- */

/* Ten times the file, and room for a report of eight messages of each kind. */
#define FACTOR 10
#define CONSTANT (16u << 10)

static size_t in_use, peak;
#ifdef SWEEP_WRAP
static size_t fail_at; /* the allocations from this one on fail, counted down; 0: none */
#endif

#ifdef SWEEP_WRAP
#include <malloc.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *place, size_t size);
void __real_free(void *place);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *place, size_t size);
void __wrap_free(void *place);

static void *count(void *place) {
    if (place != NULL) in_use += malloc_usable_size(place);
    if (in_use > peak) peak = in_use;
    return place;
}

/* Stays at 1 once it is there. */
static int refused(void) {
    if (fail_at > 1) fail_at--;
    return fail_at == 1;
}

void *__wrap_malloc(size_t size) { return refused() ? NULL : count(__real_malloc(size)); }
void *__wrap_calloc(size_t n, size_t size) {
    return refused() ? NULL : count(__real_calloc(n, size));
}

void *__wrap_realloc(void *place, size_t size) {
    const size_t before = place == NULL ? 0 : malloc_usable_size(place);
    void *moved = refused() ? NULL : __real_realloc(place, size);
    if (moved == NULL) return NULL;
    count(moved); /* both exist while the old one is copied */
    in_use -= before;
    return moved;
}

void __wrap_free(void *place) {
    if (place != NULL) in_use -= malloc_usable_size(place);
    __real_free(place);
}
#endif

/* ---- One case ---- */

static unsigned long answers[3], too_much, leaked;
static size_t most;  /* bytes, whatever the file */
static double worst; /* times the file, of those larger than the constant */

static int run(const unsigned char *data, size_t size, const char *what, size_t at) {
    int answer;
    in_use = peak = 0;
    answer = glpcore_fuzz_one(data, size);
    answers[answer]++;
    if (in_use != 0 && leaked++ < 10) {
        printf("%s %zu: %zu bytes are not freed\n", what, at, in_use);
    }
    if (peak > FACTOR * size + CONSTANT && too_much++ < 10) {
        printf("%s %zu: %zu bytes for a file of %zu\n", what, at, peak, size);
    }
    if (peak > most) most = peak;
    if (size > CONSTANT && (double)peak / (double)size > worst) worst = (double)peak / (double)size;
    return answer;
}

/* An exact copy, so that a read past the end is one past an allocation; every other one is not
 * aligned, which makes the library copy it. */
static int run_exact(const unsigned char *data, size_t size, const char *what, size_t at) {
    const size_t shift = at % 2;
    unsigned char *copy = (unsigned char *)malloc(size + shift + (size + shift == 0));
    int answer;
    if (copy == NULL) abort();
    memcpy(copy + shift, data, size);
    answer = run(copy + shift, size, what, at);
    in_use = 0; /* what `copy` took before is not the library's */
    free(copy);
    return answer;
}

/* ---- No memory ---- */

static unsigned long starved_badly;

#ifdef SWEEP_WRAP
static unsigned long starved;

static void starve(const unsigned char *data, size_t size) {
    glpcore_open_options options = {sizeof options, 0, 0, 1};
    glpcore_target target;
    size_t n;
    int done = 0;
    memset(&target, 0, sizeof target);
    target.struct_size = sizeof target;
    target.renormalise = 1;
    for (n = 1; !done; n++) {
        char message[64] = "#";
        glpcore_file *file = NULL;
        glpcore_report *report = NULL;
        glpcore_vector *vector = NULL;
        glpcore_status opened, judged, accepted = GLPCORE_OK;
        in_use = peak = 0;
        fail_at = n + 1;
        opened = glpcore_open_memory(data, size, "v", &options, &file, &report, message, 64);
        if ((opened == GLPCORE_OK) != (file != NULL)) starved_badly++;
        if (opened == GLPCORE_NOMEM && (report != NULL || message[0] < 'A')) starved_badly++;
        glpcore_report_free(report);
        report = NULL;
        if (file != NULL) {
            judged = glpcore_judge(file, NULL, &report, message, 64);
            if ((judged == GLPCORE_NOMEM) != (report == NULL)) starved_badly++;
            glpcore_describe(file, report, "v", 1, message, sizeof message);
            glpcore_report_free(report);
            report = NULL;
            accepted = glpcore_accept(file, &target, &vector, &report, message, 64);
            if ((accepted == GLPCORE_OK) != (vector != NULL)) starved_badly++;
            if (accepted > GLPCORE_REFUSED && accepted != GLPCORE_NOMEM) starved_badly++;
            glpcore_report_free(report);
            glpcore_vector_free(vector);
        }
        glpcore_close(file);
        done = fail_at > 1; /* there was memory for all of it */
        fail_at = 0;
        if (in_use != 0 && leaked++ < 10) {
            printf("allocation %zu refused: %zu bytes are not freed\n", n, in_use);
        }
        if (opened == GLPCORE_NOMEM || accepted == GLPCORE_NOMEM) starved++;
    }
}
#endif

/* Where the data starts, as the library says: the least offset of a tensor. */
static size_t header_size(const unsigned char *data, size_t size) {
    glpcore_file *file = NULL;
    glpcore_tensor tensor;
    size_t i, least = size;
    if (glpcore_open_memory(data, size, NULL, NULL, &file, NULL, NULL, 0) != GLPCORE_OK) {
        return size;
    }
    tensor.struct_size = sizeof tensor;
    for (i = 0; glpcore_tensor_at(file, i, &tensor) == GLPCORE_OK; i++) {
        if (tensor.offset < least) least = (size_t)tensor.offset;
    }
    glpcore_close(file);
    return least;
}

static void sweep(unsigned char *data, size_t size, size_t limit) {
    const size_t step = 1 + size / 4096;
    size_t at, end = header_size(data, size);
    int value;
#ifdef SWEEP_WRAP
    starve(data, size);
#endif
    if (end > limit) end = limit;
    for (at = 0; at <= size; at += step) run_exact(data, at, "prefix of", at);
    for (at = 0; at < end; at++) {
        const unsigned char original = data[at];
        for (value = 0; value < 256; value++) {
            if (value == original) continue;
            data[at] = (unsigned char)value;
            run_exact(data, size, "byte changed at", at);
        }
        data[at] = original;
    }
}

static int sweep_file(const char *path, size_t limit) {
    static unsigned char data[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t size;
    if (file == NULL) {
        perror(path);
        return 0;
    }
    size = fread(data, 1, sizeof data, file);
    fclose(file);
    if (size == sizeof data) {
        fprintf(stderr, "%s: larger than 1 MiB\n", path);
        return 0;
    }
    sweep(data, size, limit);
    return 1;
}

int main(int argc, char **argv) {
    size_t limit = SIZE_MAX;
    unsigned long total, failed = 0;
    int i;
    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-l") == 0 && i + 1 < argc) {
            limit = (size_t)strtoull(argv[++i], NULL, 10);
        } else if (!sweep_file(argv[i], limit)) {
            failed++;
        }
    }
    total = answers[0] + answers[1] + answers[2];
    printf("%lu applicable, %lu refused, %lu not sound\n", answers[0], answers[1], answers[2]);
#ifdef SWEEP_WRAP
    printf("memory: at most %zu bytes, and %.2f times the file where that is larger than %u\n", most,
           worst, CONSTANT);
    printf("no memory: said so %lu times\n", starved);
#else
    printf("memory: not measured, for want of SWEEP_WRAP\n");
#endif
    failed += too_much + leaked + starved_badly + (total == 0);
    printf("%lu passed, %lu failed\n", total - too_much, failed);
    return failed != 0;
}
