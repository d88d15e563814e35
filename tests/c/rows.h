/* What the tests of rows share: counting, random numbers, memory between guard pages, the 16-bit
 * formats from their definition, an oracle written from docs/numerics.md alone, and data.
 *
 * A program includes this first, calls begin() first, and returns finish(). */
#ifndef TESTS_ROWS_H
#define TESTS_ROWS_H

#if !defined(_WIN32) && !defined(_GNU_SOURCE)
#  define _GNU_SOURCE
#endif

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(_WIN32)
#  include <sys/mman.h>
#  include <unistd.h>
#endif

#include "../../csrc/cpu.h"
#include "../../csrc/project.h"

static long n_passed, n_failed;

enum { EVERYTHING, SUBSET, QUICK };
static int mode = EVERYTHING;
static size_t thin = 1; /* one case of so many is run, where there are too many */

static void check(int condition, const char *format, ...) {
    va_list arguments;

    if (condition) {
        n_passed++;
        return;
    }
    if (++n_failed <= 30) {
        printf("FAIL ");
        va_start(arguments, format);
        vprintf(format, arguments);
        va_end(arguments);
        printf("\n");
    }
}

/* ---- The public functions, with at most the instructions of `cpu` ---------------------------- */

static inline glpcore_status project_k_on(uint32_t cpu, void *x, glpcore_dtype dtype,
                                          size_t n_rows, size_t n_embd, size_t stride,
                                          const float *const *d, const double *alphas, size_t k,
                                          const glpcore_executor *executor) {
    return glpcore_rows_run(cpu, 0, x, dtype, n_rows, n_embd, stride, d, alphas, k, executor);
}

static inline glpcore_status project_on(uint32_t cpu, void *x, glpcore_dtype dtype, size_t n_rows,
                                        size_t n_embd, size_t stride, const float *v,
                                        double scale, const glpcore_executor *executor) {
    return glpcore_rows_run(cpu, 0, x, dtype, n_rows, n_embd, stride, &v, &scale, 1, executor);
}

static inline glpcore_status add_on(uint32_t cpu, void *x, glpcore_dtype dtype, size_t n_rows,
                                    size_t n_embd, size_t stride, const float *v, double scale,
                                    const glpcore_executor *executor) {
    return glpcore_rows_run(cpu, GLPCORE_ROWS_ADD, x, dtype, n_rows, n_embd, stride, &v, &scale, 1,
                            executor);
}

/* ---- Bits, random numbers, memory ----------------------------------------------------------- */

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline int is_nan32(uint32_t bits) {
    return (bits & 0x7fffffff) > 0x7f800000;
}

static uint64_t random_state = 20240607;

static inline uint64_t random64(void) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static size_t below(size_t n) {
    return (size_t)(random64() % n);
}

static double uniform(void) /* -1 .. 1 */
{
    return (double)(random64() >> 11) * 0x1p-52 - 1;
}

static double gaussian(void) {
    double sum = 0;
    int i;
    for (i = 0; i < 6; i++) {
        sum += uniform();
    }
    return sum * 0.70710678118654752;
}

#if !defined(_WIN32)
/* Whole pages, so what fills them lies directly between unmapped ones. */
static inline size_t pages_for(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + (size == 0) + page - 1) / page * page;
}
#endif

/* On either side of an object: more than the longest row, for a read of the next one. */
enum { GUARD = 1 << 17 };

/* `size` bytes that end where unmapped memory begins, or that begin where it ends. */
static inline void *guarded(size_t size, int at_end) {
#if defined(_WIN32)
    (void)at_end;
    return calloc(1, size + 1);
#else
    size_t body = pages_for(size);
    char *base = mmap(NULL, body + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED || mprotect(base + GUARD, body, PROT_READ | PROT_WRITE) != 0) {
        perror("mmap");
        exit(2);
    }
    return at_end ? base + GUARD + body - size : base + GUARD;
#endif
}

/* What guarded(size, at_end) returned. */
static inline void guarded_free(void *memory, size_t size, int at_end) {
#if defined(_WIN32)
    (void)size;
    (void)at_end;
    free(memory);
#else
    size_t body = pages_for(size);
    munmap((char *)memory - GUARD - (at_end ? body - size : 0), body + 2 * GUARD);
#endif
}

/* A pointer that faults when it is read. */
static inline void *untouchable(void) {
#if defined(_WIN32)
    return (void *)(uintptr_t)64;
#else
    static void *memory;
    if (!memory) {
        memory = mmap(NULL, (size_t)1 << 22, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    return memory;
#endif
}

/* ---- The oracle ----------------------------------------------------------------------------- */

static const glpcore_dtype dtypes[3] = {GLPCORE_F32, GLPCORE_F16, GLPCORE_BF16};
static const char *const dtype_names[4] = {"?", "f32", "f16", "bf16"};

static size_t size_of(glpcore_dtype dtype) {
    return dtype == GLPCORE_F32 ? 4 : 2;
}

/* The value of a 16-bit pattern from the definition of the format. */
static double decode(glpcore_dtype dtype, uint16_t half) {
    int fraction_bits = dtype == GLPCORE_F16 ? 10 : 7, exponent_bits = 15 - fraction_bits;
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = half >> fraction_bits & ((1 << exponent_bits) - 1);
    int fraction = half & ((1 << fraction_bits) - 1);
    double magnitude;

    if (exponent == (1 << exponent_bits) - 1) {
        magnitude = fraction ? (double)NAN : (double)INFINITY;
    } else if (exponent == 0) {
        magnitude = ldexp(fraction, 1 - bias - fraction_bits);
    } else {
        magnitude = ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    }
    return half & 0x8000 ? -magnitude : magnitude;
}

static double decoded[4][0x8000]; /* of the non-negative patterns, by dtype */

static uint16_t infinity16(glpcore_dtype dtype) {
    return dtype == GLPCORE_F16 ? 0x7c00 : 0x7f80;
}

static int is_nan16(glpcore_dtype dtype, uint16_t half) {
    return (half & 0x7fff) > infinity16(dtype);
}

/* To nearest even by search among all values. */
static uint16_t encode(glpcore_dtype dtype, double value) {
    const double *table = decoded[dtype];
    double magnitude = fabs(value), next, middle;
    uint16_t low = 0, high = infinity16(dtype), sign = signbit(value) ? 0x8000 : 0;

    if (value != value) {
        return 0x7fff;
    }
    if (magnitude == (double)INFINITY) {
        return sign | high;
    }
    while (high - low > 1) {
        uint16_t mid = (uint16_t)((low + high) / 2);
        if (table[mid] <= magnitude) {
            low = mid;
        } else {
            high = mid;
        }
    }
    /* Beyond the largest value the next one is where the format would go on. */
    next = low + 1 == infinity16(dtype) ? 2 * table[low] - table[low - 1] : table[low + 1];
    middle = (table[low] + next) / 2;
    if (magnitude > middle || (magnitude == middle && low % 2 == 1)) {
        low++;
    }
    return sign | low;
}

static float get(glpcore_dtype dtype, const void *row, size_t i) {
    uint16_t half;
    float value;

    if (dtype == GLPCORE_F32) {
        memcpy(&value, (const char *)row + 4 * i, 4);
        return value;
    }
    memcpy(&half, (const char *)row + 2 * i, 2);
    value = (float)decoded[dtype][half & 0x7fff];
    return half & 0x8000 ? -value : value;
}

static void put(glpcore_dtype dtype, void *row, size_t i, float value) {
    uint16_t half;

    if (dtype == GLPCORE_F32) {
        memcpy((char *)row + 4 * i, &value, 4);
        return;
    }
    half = encode(dtype, value);
    memcpy((char *)row + 2 * i, &half, 2);
}

static inline double oracle_dot(glpcore_dtype dtype, const void *row, const float *v, size_t n) {
    volatile double t[16];
    size_t i;
    int l;

    for (l = 0; l < 16; l++) {
        t[l] = 0;
    }
    for (i = 0; i < n; i++) {
        volatile double product = (double)get(dtype, row, i) * (double)v[i];
        t[i % 16] = t[i % 16] + product;
    }
    return (((t[0] + t[8]) + (t[4] + t[12])) + ((t[2] + t[10]) + (t[6] + t[14]))) +
           (((t[1] + t[9]) + (t[5] + t[13])) + ((t[3] + t[11]) + (t[7] + t[15])));
}

static int zero_vector(const float *v, size_t n) {
    size_t i;
    for (i = 0; i < n; i++) {
        if (v[i] != 0) {
            return 0;
        }
    }
    return 1;
}

static inline void oracle_project(glpcore_dtype dtype, void *row, const float *const *d,
                                  const double *alphas, size_t k, size_t n) {
    float *work = malloc((n + 1) * sizeof *work);
    double *dots = malloc((k + 1) * sizeof *dots);
    size_t i, j;
    int touched = 0;

    for (i = 0; i < n; i++) {
        work[i] = get(dtype, row, i);
    }
    for (j = 0; j < k; j++) {
        dots[j] = alphas[j] == 0 || zero_vector(d[j], n) ? 0 : oracle_dot(dtype, row, d[j], n);
    }
    for (j = 0; j < k; j++) {
        float a = (float)(alphas[j] * dots[j]);
        if (alphas[j] == 0 || zero_vector(d[j], n) || a == 0) {
            continue;
        }
        touched = 1;
        for (i = 0; i < n; i++) {
            work[i] = fmaf(-a, d[j][i], work[i]);
        }
    }
    for (i = 0; touched && i < n; i++) {
        put(dtype, row, i, work[i]);
    }
    free(work);
    free(dots);
}

static inline void oracle_add(glpcore_dtype dtype, void *row, const float *v, double scale,
                              size_t n) {
    size_t i;
    for (i = 0; (float)scale != 0 && i < n; i++) {
        put(dtype, row, i, fmaf((float)scale, v[i], get(dtype, row, i)));
    }
}

/* Bochs rounds a third of the ties between two float16 away from even, by F16C and by AVX-512 alike,
 * where every processor that was tried rounds to even. A neighbour passes there, in float16 alone. */
static int wrong_ties;

static inline void find_wrong_ties(void) {
    uint16_t x = 0;
    const float v = 0x1.f0ap-4f; /* between 2fc2 and 2fc3 */

    glpcore_rows_run(glpcore_cpu(), GLPCORE_ROWS_ADD, &x, GLPCORE_F16, 1, 1, 1,
                     &(const float *){&v}, &(const double){1}, 1, NULL);
    if (mode == QUICK && x == 0x2fc3) {
        printf("this emulator rounds float16 ties wrongly: one unit is allowed\n");
        wrong_ties = 1;
    }
}

/* Equal bits, but any NaN for any NaN. Returns n, or the first element that differs. */
static inline size_t difference(glpcore_dtype dtype, const void *a, const void *b, size_t n) {
    size_t i;
    for (i = 0; i < n; i++) {
        if (dtype == GLPCORE_F32) {
            uint32_t p, q;
            memcpy(&p, (const char *)a + 4 * i, 4);
            memcpy(&q, (const char *)b + 4 * i, 4);
            if (p != q && !(is_nan32(p) && is_nan32(q))) {
                return i;
            }
        } else {
            uint16_t p, q;
            memcpy(&p, (const char *)a + 2 * i, 2);
            memcpy(&q, (const char *)b + 2 * i, 2);
            if (p != q && !(is_nan16(dtype, p) && is_nan16(dtype, q)) &&
                !(wrong_ties && dtype == GLPCORE_F16 && (uint16_t)(p - q + 1) <= 2)) {
                return i;
            }
        }
    }
    return n;
}

static inline int same(glpcore_dtype dtype, const void *a, const void *b, size_t n) {
    return difference(dtype, a, b, n) == n;
}

/* ---- Paths and data ------------------------------------------------------------------------- */

static uint32_t paths[64];
static size_t n_paths;

/* Every set of features that this processor can be reduced to, 0 (portable C, built with the flags
 * of the whole program: on x86-64 by default without FMA) first and all of them last. What serves
 * the hash alone does not multiply them. A quick run takes the first and the last. */
static void find_paths(void) {
    uint32_t all = glpcore_cpu(), rows = all, set = 0;

#ifdef GLPCORE_X86
    rows &= ~GLPCORE_CPU_SHA;
#endif
    do {
        if (mode != QUICK || set == 0 || set == rows) {
            paths[n_paths++] = set == rows ? all : set;
        }
        set = (set - rows) & rows;
    } while (set != 0 && n_paths < sizeof paths / sizeof *paths);
}

enum { PLAIN, MASSIVE, CANCELLING, SUBNORMAL, BITS, SPECIAL, N_KINDS };

static inline void fill_row(glpcore_dtype dtype, void *row, size_t n, int kind) {
    size_t i, at = below(n ? n : 1);

    for (i = 0; i < n; i++) {
        double value = gaussian();
        if (kind == MASSIVE && i == at) {
            value *= 1e4;
        }
        if (kind == CANCELLING && (i == at || i == (at + 1) % n)) {
            value = i == at ? 9000 : -9000;
        }
        if (kind == SUBNORMAL) {
            value *= dtype == GLPCORE_F16 ? 1e-6 : 1e-39;
        }
        put(dtype, row, i, (float)value);
        if (kind == BITS) {
            uint64_t bits = random64();
            memcpy((char *)row + size_of(dtype) * i, &bits, size_of(dtype));
        }
        if (kind == SPECIAL && below(9) == 0) {
            static const float special[6] = {INFINITY, -INFINITY, NAN, -0.0f, FLT_MIN, 65000.f};
            put(dtype, row, i, special[below(6)]);
        }
    }
}

static inline void fill_vector(float *v, size_t n, int unit) {
    double norm = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        v[i] = (float)gaussian();
        norm += (double)v[i] * v[i];
    }
    for (i = 0; unit && i < n; i++) {
        v[i] = (float)(v[i] / sqrt(norm > 0 ? norm : 1));
    }
}

/* Pairs of elements in a random order: of order[2 i] and order[2 i + 1]. */
static inline void make_order(size_t *order, size_t n) {
    size_t i;

    for (i = 0; i < n; i++) {
        order[i] = i;
    }
    for (i = 0; i < n; i++) {
        size_t other = i + below(n - i), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

/* Products over sixty octaves that cancel in the pairs of `order`: nearly all that is left of the
 * sum is what the order of the additions makes of it. Ordinary data hides a wrong order behind
 * float32. A coefficient of about 1 needs a scale of about 2^-50. */
static inline void order_vector(float *v, size_t n, const size_t *order) {
    size_t i;

    for (i = 0; i < n; i += 2) {
        double value = gaussian();
        v[order[i]] = i + 1 < n ? (float)ldexp(value, (int)below(60)) : 1;
        if (i + 1 < n) {
            v[order[i + 1]] = -v[order[i]];
        }
    }
}

/* Makes the row at x the other factor. */
static inline void order_row(glpcore_dtype dtype, void *x, size_t n, const size_t *order) {
    size_t i;

    for (i = 1; i < n; i += 2) {
        put(dtype, x, order[i], get(dtype, x, order[i - 1]));
    }
}

/* ---- A program ------------------------------------------------------------------------------- */

/* The first argument, or GLPCORE_TEST_MODE where a program cannot be given one. */
static void begin(int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : getenv("GLPCORE_TEST_MODE");
    int half;

    if (word && *word) {
        thin = strtoul(word, NULL, 10);
        if (strcmp(word, "subset") == 0 || strcmp(word, "quick") == 0) {
            mode = *word == 's' ? SUBSET : QUICK;
            thin = mode == QUICK ? 30 : 1;
        } else if (thin == 0) {
            fprintf(stderr, "subset, quick or a number, not %s\n", word);
            exit(2);
        }
    }
    for (half = 0; half < 0x8000; half++) {
        decoded[GLPCORE_F16][half] = decode(GLPCORE_F16, (uint16_t)half);
        decoded[GLPCORE_BF16][half] = decode(GLPCORE_BF16, (uint16_t)half);
    }
    find_paths();
    find_wrong_ties();
}

static int finish(const char *name) {
    printf("%s: %ld passed, %ld failed\n", name, n_passed, n_failed);
    return n_failed != 0 || n_passed == 0;
}

#endif /* TESTS_ROWS_H */
