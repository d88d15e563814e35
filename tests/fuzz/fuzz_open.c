/* Any bytes, as GGUF and as raw rows: open, judge, describe, accept, use. For libFuzzer, and
 * linked into sweep.c. It allocates nothing itself, so that the library's memory can be measured.
 *
 *   clang -fsanitize=fuzzer,address,undefined -Icsrc/include csrc/[a-z]*.c tests/fuzz/fuzz_open.c
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "glpcore.h"

#define REQUIRE(condition) \
    do {                   \
        if (!(condition)) abort(); \
    } while (0)

int glpcore_fuzz_one(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char text[1 << 16];
static float table[1 << 16];
static double alphas[1 << 12];

/* Every byte that a result points at is read, so that a pointer out of the file is noticed. */
static volatile unsigned char sink;

static void touch(const void *data, size_t size) {
    const unsigned char *bytes = (const unsigned char *)data;
    unsigned char sum = 0;
    size_t i;
    for (i = 0; i < size; i++) sum ^= bytes[i];
    sink = sum;
}

static void read_report(glpcore_report *report, glpcore_status status) {
    glpcore_finding finding;
    size_t i, errors = 0;
    REQUIRE(report != NULL);
    finding.struct_size = sizeof finding;
    for (i = 0; glpcore_finding_at(report, i, &finding) == GLPCORE_OK; i++) {
        const size_t length = strlen(finding.message);
        size_t k;
        REQUIRE(finding.code[0] != '\0' && finding.message[0] >= 'A' && finding.message[0] <= 'Z');
        for (k = 0; k < length; k++) REQUIRE((unsigned char)finding.message[k] >= 0x20);
        touch(finding.key.data, finding.key.size);
        touch(finding.tensor.data, finding.tensor.size);
        errors += finding.severity != GLPCORE_SEVERITY_WARNING;
    }
    REQUIRE(i == glpcore_finding_count(report));
    REQUIRE((errors == 0) == (status == GLPCORE_OK));
    glpcore_report_free(report);
}

static void read_entries(const glpcore_file *file) {
    glpcore_kv kv, found;
    glpcore_tensor tensor;
    glpcore_payload payload;
    glpcore_info info;
    size_t i;
    kv.struct_size = sizeof kv;
    found.struct_size = sizeof found;
    tensor.struct_size = sizeof tensor;
    payload.struct_size = sizeof payload;
    info.struct_size = sizeof info;
    REQUIRE(glpcore_info_get(file, &info) == GLPCORE_OK);
    for (i = 0; i < glpcore_kv_count(file); i++) {
        REQUIRE(glpcore_kv_at(file, i, &kv) == GLPCORE_OK);
        touch(kv.value, kv.value_size);
        if (i < 64) {
            REQUIRE(glpcore_kv_find(file, kv.key.data, kv.key.size, &found) == GLPCORE_OK);
            REQUIRE(found.value == kv.value);
        }
    }
    for (i = 0; i < glpcore_tensor_count(file); i++) {
        REQUIRE(glpcore_tensor_at(file, i, &tensor) == GLPCORE_OK);
        touch(tensor.name.data, tensor.name.size);
        touch(tensor.data, (size_t)tensor.n_bytes);
    }
    for (i = 0; glpcore_payload_at(file, i, &payload) == GLPCORE_OK; i++) {
        touch(payload.data, payload.n_embd * sizeof(float));
        REQUIRE((uintptr_t)payload.data % 4 == 0);
    }
    REQUIRE(i == info.n_directions);
}

static void use(const glpcore_vector *vector) {
    glpcore_strength strength = {sizeof strength, 1, 1.0, 0, 0.0};
    glpcore_vector_info info;
    size_t i, n_rows;
    info.struct_size = sizeof info;
    REQUIRE(glpcore_vector_info_get(vector, &info) == GLPCORE_OK);
    REQUIRE(info.n_layers > 0 && info.rank > 0 && info.n_embd > 0);
    for (i = 0; i < info.n_layers; i++) {
        const uint32_t layer = glpcore_vector_layer(vector, i);
        uint32_t j;
        for (j = 0; j < info.rank; j++) {
            const float *direction = glpcore_direction(vector, layer, j);
            double alpha, norm = 0;
            uint64_t k;
            REQUIRE(direction != NULL && (uintptr_t)direction % 4 == 0);
            for (k = 0; k < info.n_embd; k++) norm += (double)direction[k] * direction[k];
            /* What a vector lets through: finite, and of unit norm where it projects. */
            REQUIRE(norm < INFINITY);
            REQUIRE(info.mode != GLPCORE_MODE_PROJECT || fabs(sqrt(norm) - 1) < 1.1e-3);
            REQUIRE(glpcore_alpha(vector, layer, j, &strength, &alpha, NULL, NULL, 0) ==
                        GLPCORE_OK &&
                    alpha > -INFINITY && alpha < INFINITY);
        }
    }
    n_rows = (size_t)info.layer_max + 1;
    if (n_rows <= sizeof alphas / sizeof alphas[0] &&
        info.n_embd <= sizeof table / sizeof table[0] / n_rows) {
        glpcore_status status = glpcore_fill_dense(vector, table, n_rows, (size_t)info.n_embd,
                                                   &strength, alphas, text, 64);
        REQUIRE(status == (info.rank > 1 ? GLPCORE_REFUSED : GLPCORE_OK));
    }
}

/* Everything that can be done with an open file; GLPCORE_OK or GLPCORE_REFUSED by itself. */
static glpcore_status examine(const glpcore_file *file) {
    static const char *const names[] = {"Tiny 1B"};
    glpcore_report *report = NULL;
    glpcore_target target;
    glpcore_status status, judged;
    size_t length;
    int variant;
    read_entries(file);
    judged = glpcore_judge(file, NULL, &report, text, 64);
    REQUIRE(judged == GLPCORE_OK || judged == GLPCORE_REFUSED);
    length = glpcore_describe(file, report, "v", 1, text, sizeof text);
    REQUIRE(length > 0 && (length >= sizeof text || text[length - 1] == '\n'));
    REQUIRE(glpcore_describe(file, report, "v", 1, NULL, 0) == length);
    REQUIRE(glpcore_describe(file, report, "v", 0, text, 100) <= length);
    REQUIRE(memchr(text, 0, 100) != NULL);
    read_report(report, judged);
    memset(&target, 0, sizeof target);
    target.struct_size = sizeof target;
    for (variant = 0; variant < 4; variant++) {
        glpcore_vector *vector = NULL;
        glpcore_status accepted;
        target.mode = variant == 1 ? GLPCORE_MODE_ADD : GLPCORE_MODE_PROJECT;
        target.hook = variant == 0 ? GLPCORE_HOOK_FFN_OUT_PRE_RESIDUAL : GLPCORE_HOOK_UNKNOWN;
        target.structure = variant == 3 ? GLPCORE_STRUCTURE_PER_EXECUTION_STEP
                                        : GLPCORE_STRUCTURE_PER_LAYER;
        target.renormalise = variant == 2;
        target.skip_hash = variant == 2;
        target.allow_base_mismatch = variant == 2;
        target.arch = variant == 0 ? "llama" : NULL;
        target.n_embd = variant == 0 ? 8 : 0;
        target.base_names = names;
        target.n_base_names = variant != 1;
        target.base_revision = "0123456789abcdef0123456789abcdef01234567";
        status = glpcore_judge(file, &target, &report, text, 64);
        read_report(report, status);
        accepted = glpcore_accept(file, &target, &vector, &report, text, 64);
        read_report(report, accepted);
        REQUIRE(accepted == status && (vector != NULL) == (accepted == GLPCORE_OK));
        if (vector != NULL) use(vector);
        glpcore_vector_free(vector);
    }
    return judged;
}

/* As headerless rows of eight, which only the size and the magic can prevent. */
static void read_raw(const uint8_t *data, size_t size, int is_gguf) {
    glpcore_file *file = NULL;
    glpcore_status status =
        glpcore_open_raw_memory(data, size, NULL, size / 32, 8, NULL, &file, NULL, text, 64);
    REQUIRE((status == GLPCORE_OK) == (!is_gguf && size != 0 && size % 32 == 0));
    if (status == GLPCORE_OK) examine(file);
    glpcore_close(file);
}

/* Returns 0, 1 or 2: the exit status of the command line. */
int glpcore_fuzz_one(const uint8_t *data, size_t size) {
    glpcore_file *file = NULL;
    glpcore_report *report = NULL;
    glpcore_status status, judged;
    read_raw(data, size, size >= 4 && memcmp(data, "GGUF", 4) == 0);
    status = glpcore_open_memory(data, size, "v-a4.gguf", NULL, &file, &report, text, 64);
    REQUIRE(memchr(text, 0, 64) != NULL);
    read_report(report, status);
    if (status != GLPCORE_OK) {
        REQUIRE(file == NULL && (status == GLPCORE_FORMAT || (status == GLPCORE_IO && size == 0)));
        return 2;
    }
    judged = examine(file);
    glpcore_close(file);
    return judged == GLPCORE_OK ? 0 : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    glpcore_fuzz_one(data, size);
    return 0;
}
