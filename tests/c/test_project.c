/* The promise of docs/numerics.md, against an oracle written from that page alone.
 *
 *   test_project          everything
 *   test_project subset   what must hold even where the library is built with -ffast-math
 */
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

/* ---- The public functions, with at most the instructions of `cpu` ----------------------------- */

static glpcore_status project_k_on(uint32_t cpu, void *x, glpcore_dtype dtype, size_t n_rows,
                                   size_t n_embd, size_t stride, const float *const *d,
                                   const double *alphas, size_t k,
                                   const glpcore_executor *executor) {
    return glpcore_rows_run(cpu, 0, x, dtype, n_rows, n_embd, stride, d, alphas, k, executor);
}

static glpcore_status project_on(uint32_t cpu, void *x, glpcore_dtype dtype, size_t n_rows,
                                 size_t n_embd, size_t stride, const float *v, double scale,
                                 const glpcore_executor *executor) {
    return glpcore_rows_run(cpu, 0, x, dtype, n_rows, n_embd, stride, &v, &scale, 1, executor);
}

static glpcore_status add_on(uint32_t cpu, void *x, glpcore_dtype dtype, size_t n_rows,
                             size_t n_embd, size_t stride, const float *v, double scale,
                             const glpcore_executor *executor) {
    return glpcore_rows_run(cpu, GLPCORE_ROWS_ADD, x, dtype, n_rows, n_embd, stride, &v, &scale, 1,
                            executor);
}

/* ---- Bits, random numbers, memory ----------------------------------------------------------- */

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static int is_nan32(uint32_t bits) {
    return (bits & 0x7fffffff) > 0x7f800000;
}

static uint64_t random_state = 20240607;

static uint64_t random64(void) {
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

/* `size` bytes that end where an unmapped page begins, or that begin where one ends. */
static void *guarded(size_t size, int at_end) {
#if defined(_WIN32)
    (void)at_end;
    return calloc(1, size + 1);
#else
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (size + page) / page * page;
    char *base = mmap(NULL, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED || mprotect(base + page, body, PROT_READ | PROT_WRITE) != 0) {
        perror("mmap");
        exit(2);
    }
    return at_end ? base + page + body - size : base + page;
#endif
}

/* What guarded(size, at_end) returned. */
static void guarded_free(void *memory, size_t size, int at_end) {
#if defined(_WIN32)
    (void)size;
    (void)at_end;
    free(memory);
#else
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (size + page) / page * page;
    munmap((char *)memory - page - (at_end ? body - size : 0), body + 2 * page);
#endif
}

/* A pointer that faults when it is read. */
static void *untouchable(void) {
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
static uint16_t encode(glpcore_dtype dtype, float value) {
    const double *table = decoded[dtype];
    double magnitude = fabs((double)value), next, middle;
    uint16_t low = 0, high = infinity16(dtype), sign = bits_of(value) >> 31 ? 0x8000 : 0;

    if (is_nan32(bits_of(value))) {
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
    return (float)decode(dtype, half);
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

static double oracle_dot(glpcore_dtype dtype, const void *row, const float *v, size_t n) {
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

static void oracle_project(glpcore_dtype dtype, void *row, const float *const *d,
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

static void oracle_add(glpcore_dtype dtype, void *row, const float *v, double scale, size_t n) {
    size_t i;
    for (i = 0; (float)scale != 0 && i < n; i++) {
        put(dtype, row, i, fmaf((float)scale, v[i], get(dtype, row, i)));
    }
}

/* Equal bits, but any NaN for any NaN. Returns n, or the first element that differs. */
static size_t difference(glpcore_dtype dtype, const void *a, const void *b, size_t n) {
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
            if (p != q && !(is_nan16(dtype, p) && is_nan16(dtype, q))) {
                return i;
            }
        }
    }
    return n;
}

static int same(glpcore_dtype dtype, const void *a, const void *b, size_t n) {
    return difference(dtype, a, b, n) == n;
}

/* ---- Paths and data ------------------------------------------------------------------------- */

static uint32_t paths[8];
static size_t n_paths;

/* Every set of features that this processor can be reduced to. */
static void find_paths(void) {
    uint32_t cpu = glpcore_cpu() & (GLPCORE_CPU_AVX2 | GLPCORE_CPU_AVX512);
                                    GLPCORE_CPU_AVX512BF16);
    paths[n_paths++] = 0;
    if (cpu & GLPCORE_CPU_AVX2) {
        paths[n_paths++] = GLPCORE_CPU_AVX2;
    }
    if (cpu & GLPCORE_CPU_AVX512) {
        paths[n_paths++] = GLPCORE_CPU_AVX2 | GLPCORE_CPU_AVX512;
    }
    if (cpu & GLPCORE_CPU_AVX512BF16) {
        paths[n_paths++] = cpu;
    }
}

enum { PLAIN, MASSIVE, CANCELLING, SUBNORMAL, BITS, SPECIAL, N_KINDS };

static void fill_row(glpcore_dtype dtype, void *row, size_t n, int kind) {
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

static void fill_vector(float *v, size_t n, int unit) {
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

/* ---- Every shape and place ------------------------------------------------------------------ */

static void test_shape(glpcore_dtype dtype, size_t n, size_t n_rows, size_t gap, size_t shift,
                       int at_end) {
    static const double scales[8] = {1, 0.35, -1.7, 2, 1e-3, 1e30, 0.1, 1};
    size_t stride = n + gap, size = size_of(dtype);
    size_t extent = ((n_rows - 1) * stride + n) * size;
    /* Shifted memory leaves the guard page by `shift` elements. */
    char *x = (char *)guarded(extent + shift * size, at_end) + (at_end ? 0 : shift * size);
    float *v = (float *)guarded((n + shift) * 4, at_end) + (at_end ? 0 : shift);
    char *incoming = malloc(extent), *expected = malloc(extent);
    double scale = scales[below(8)];
    size_t row, path;
    int add;

    fill_vector(v, n, below(4) != 0);
    for (row = 0; row < extent; row++) {
        incoming[row] = (char)random64();
    }
    for (row = 0; row < n_rows; row++) {
        fill_row(dtype, incoming + row * stride * size, n, (int)below(N_KINDS));
    }
    for (add = 0; add < 2; add++) {
        memcpy(expected, incoming, extent);
        for (row = 0; row < n_rows; row++) {
            const float *d = v;
            if (add) {
                oracle_add(dtype, expected + row * stride * size, v, scale, n);
            } else {
                oracle_project(dtype, expected + row * stride * size, &d, &scale, 1, n);
            }
        }
        for (path = 0; path < n_paths; path++) {
            glpcore_status status;
            memcpy(x, incoming, extent);
            status = add ? add_on(paths[path], x, dtype, n_rows, n, stride, v, scale,
                                               NULL)
                         : project_on(paths[path], x, dtype, n_rows, n, stride, v,
                                                   scale, NULL);
            check(status == GLPCORE_OK, "status %d", status);
            for (row = 0; row < n_rows; row++) {
                size_t at = row * stride * size;
                size_t wrong = difference(dtype, x + at, expected + at, n);
                check(wrong == n, "%s %s path %u n %zu row %zu/%zu gap %zu shift %zu: element %zu",
                      add ? "add" : "project", dtype_names[dtype], (unsigned)paths[path], n, row,
                      n_rows, gap, shift, wrong);
                if (row + 1 < n_rows && gap > 0) {
                    check(memcmp(x + at + n * size, expected + at + n * size, gap * size) == 0,
                          "the gap after row %zu was written, n %zu", row, n);
                }
            }
        }
    }
    guarded_free(at_end ? x : x - shift * size, extent + shift * size, at_end);
    guarded_free(at_end ? v : v - shift, (n + shift) * 4, at_end);
    free(incoming);
    free(expected);
}

static void test_shapes(void) {
    static const size_t more[] = {576, 896, 2048, 4096, 4097};
    static const size_t counts[] = {1, 2, 3, 5};
    static const size_t gaps[] = {0, 1, 13};
    size_t t, i, r, g;

    for (t = 0; t < 3; t++) {
        for (i = 1; i <= 70 + sizeof more / sizeof *more; i++) {
            size_t n = i <= 70 ? i : more[i - 71];
            for (r = 0; r < 4; r++) {
                for (g = 0; g < 3; g++) {
                    test_shape(dtypes[t], n, counts[r], gaps[g], 0, 1);
                    test_shape(dtypes[t], n, counts[r], gaps[g], below(9), (int)below(2));
                }
            }
        }
    }
}

/* ---- One bit pattern, whatever the batch and the threads ------------------------------------- */

typedef struct crew {
    glpcore_executor executor;
    size_t most; /* tasks seen in one call */
} crew;

static void run_backwards(void *self, void (*task)(void *context, size_t index), void *context,
                          size_t n_tasks) {
    crew *c = self;
    c->most = n_tasks > c->most ? n_tasks : c->most;
    while (n_tasks-- > 0) {
        task(context, n_tasks);
    }
}

static void test_batches(void) {
    const size_t n = 4097, n_rows = 331, stride = 4100;
    size_t t, path, row, threads;
    float *v = malloc(n * 4);

    fill_vector(v, n, 1);
    for (t = 0; t < 3; t++) {
        glpcore_dtype dtype = dtypes[t];
        size_t size = size_of(dtype), extent = n_rows * stride * size;
        char *incoming = calloc(1, extent), *one = malloc(extent), *many = malloc(extent);

        for (row = 0; row < n_rows; row++) {
            fill_row(dtype, incoming + row * stride * size, n, (int)(row % N_KINDS));
        }
        for (path = 0; path < n_paths; path++) {
            memcpy(one, incoming, extent);
            for (row = 0; row < n_rows; row++) {
                project_on(paths[path], one + row * stride * size, dtype, 1, n, 0, v,
                                        0.9, NULL);
            }
            for (threads = 0; threads <= 5; threads++) {
                glpcore_pool *pool = NULL;
                crew c = {{sizeof(glpcore_executor), threads, run_backwards, NULL}, 1};

                c.executor.self = &c;
                memcpy(many, incoming, extent);
                project_on(paths[path], many, dtype, n_rows, n, stride, v, 0.9,
                                        &c.executor);
                check(same(dtype, one, many, extent / size), "batch of 1 and N differ, %s path %u",
                      dtype_names[dtype], (unsigned)paths[path]);
                check(c.most == (threads ? threads : 1), "%zu tasks of %zu", c.most, threads);
                if (threads > 0) {
                    check(glpcore_pool_create(threads, &pool) == GLPCORE_OK, "pool");
                    memcpy(many, incoming, extent);
                    project_on(paths[path], many, dtype, n_rows, n, stride, v, 0.9,
                                            glpcore_pool_executor(pool));
                    check(same(dtype, one, many, extent / size), "%zu threads differ, %s path %u",
                          threads, dtype_names[dtype], (unsigned)paths[path]);
                    glpcore_pool_free(pool);
                }
            }
        }
        free(incoming);
        free(one);
        free(many);
    }
    {
        crew c = {{sizeof(glpcore_executor), 8, run_backwards, NULL}, 1};
        float *x = calloc(16 * 4096, 4);
        c.executor.self = &c;
        fill_vector(v, 4096, 1);
        glpcore_project_rows(x, GLPCORE_F32, 31, 2048, 2048, v, 1, &c.executor);
        check(c.most == 1, "under 256 KB in %zu tasks", c.most);
        free(x);
    }
    free(v);
}

/* ---- Zeros, NaN and infinities -------------------------------------------------------------- */

static void test_zeros(void) {
    const size_t n = 83, n_rows = 6;
    size_t t, path, i;
    float v[83], w[83];

    for (t = 0; t < 3; t++) {
        glpcore_dtype dtype = dtypes[t];
        size_t size = size_of(dtype);
        char x[83 * 6 * 4], before[sizeof x];

        for (i = 0; i < n_rows; i++) {
            fill_row(dtype, x + i * n * size, n, i == 0 ? BITS : i == 1 ? PLAIN : SPECIAL);
        }
        put(dtype, x, 3, -0.0f);
        memcpy(before, x, sizeof x);
        for (path = 0; path < n_paths; path++) {
            static const double strengths[] = {1, -3, 1e300, INFINITY, -INFINITY, NAN};
            uint32_t on = paths[path];
            const float *two[2];
            double alphas[2];

            for (i = 0; i < n; i++) {
                v[i] = below(2) ? 0.0f : float_of(0x80000000);
            }
            for (i = 0; i < 6; i++) {
                project_on(on, x, dtype, n_rows, n, n, v, strengths[i], NULL);
                check(memcmp(x, before, sizeof x) == 0, "zero v changed %s at scale %g, path %u",
                      dtype_names[dtype], strengths[i], (unsigned)on);
                memcpy(x, before, sizeof x);
            }
            /* One element short of zero, at either end, must count. */
            for (i = 0; i < 2; i++) {
                memset(w, 0, sizeof w);
                w[i ? n - 1 : 0] = float_of(1);
                put(dtype, x, i ? 0 : n - 1, INFINITY);
                project_on(on, x, dtype, 1, n, n, w, 1, NULL);
                check(dtype == GLPCORE_F32 ? is_nan32(bits_of(get(dtype, x, 40)))
                                           : is_nan32(bits_of(get(dtype, x, 40))),
                      "0 * Inf with a v that is not zero, %s", dtype_names[dtype]);
                memcpy(x, before, sizeof x);
            }
            /* Scale 0 reads neither. */
            for (i = 0; i < 2; i++) {
                double zero = i ? -0.0 : 0.0;
                check(project_on(on, untouchable(), dtype, 9, 4096, 4096,
                                              untouchable(), zero, NULL) == GLPCORE_OK,
                      "scale 0");
                check(add_on(on, untouchable(), dtype, 9, 4096, 4096, untouchable(),
                                          i ? -1e-60 : zero, NULL) == GLPCORE_OK,
                      "add of scale 0");
                alphas[0] = alphas[1] = zero;
                two[0] = two[1] = untouchable();
                check(project_k_on(on, untouchable(), dtype, 9, 4096, 4096, two,
                                                alphas, 2, NULL) == GLPCORE_OK,
                      "rank 2 of alphas 0");
                /* A j that contributes nothing, beside one that does. */
                fill_vector(w, n, 1);
                alphas[i] = 0.5;
                two[i] = w;
                memcpy(x, before, sizeof x);
                project_k_on(on, x, dtype, n_rows, n, n, two, alphas, 2, NULL);
                {
                    char y[sizeof x];
                    memcpy(y, before, sizeof y);
                    project_on(on, y, dtype, n_rows, n, n, w, 0.5, NULL);
                    check(same(dtype, x, y, n_rows * n), "alpha 0 beside alpha 0.5");
                    two[1 - i] = v;
                    alphas[1 - i] = 7;
                    memcpy(x, before, sizeof x);
                    project_k_on(on, x, dtype, n_rows, n, n, two, alphas, 2, NULL);
                    check(same(dtype, x, y, n_rows * n), "zero d beside another, %s path %u",
                          dtype_names[dtype], (unsigned)on);
                }
                memcpy(x, before, sizeof x);
            }
            /* A coefficient of 0, whether from the dot or by underflow, touches no -0. */
            for (i = 0; i < n; i++) {
                w[i] = i ? 0.0f : -1.0f;
            }
            put(dtype, x, 0, -0.0f);
            memcpy(before, x, n * size);
            for (i = 1; i < n; i++) {
                put(dtype, before, i, (float)i);
            }
            memcpy(x, before, n * size);
            project_on(on, x, dtype, 1, n, n, w, 1, NULL);
            check(memcmp(x, before, n * size) == 0, "dot 0 changed -0, %s", dtype_names[dtype]);
            w[1] = 1;
            project_on(on, x, dtype, 1, n, n, w, 1e-60, NULL);
            check(memcmp(x, before, n * size) == 0, "a = 0 changed -0, %s", dtype_names[dtype]);
        }
    }
}

static void test_isolation(void) {
    const size_t n = 77, n_rows = 7;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    size_t t, path, victim, b, row, i;
    float v[77];
    const float *d = v;
    double one = 1;

    fill_vector(v, n, 1);
    v[5] = 0;
    for (t = 0; t < 3; t++) {
        glpcore_dtype dtype = dtypes[t];
        size_t size = size_of(dtype);
        char clean[77 * 7 * 4], x[sizeof clean], expected[sizeof clean];

        for (row = 0; row < n_rows; row++) {
            fill_row(dtype, clean + row * n * size, n, PLAIN);
        }
        for (path = 0; path < n_paths; path++) {
            for (victim = 0; victim < n_rows; victim++) {
                for (b = 0; b < 3; b++) {
                    memcpy(x, clean, sizeof x);
                    put(dtype, x + victim * n * size, below(n), bad[b]);
                    memcpy(expected, x, sizeof x);
                    for (row = 0; row < n_rows; row++) {
                        oracle_project(dtype, expected + row * n * size, &d, &one, 1, n);
                    }
                    project_on(paths[path], x, dtype, n_rows, n, n, v, 1, NULL);
                    check(difference(dtype, x, expected, n * n_rows) == n * n_rows,
                          "isolation, %s path %u row %zu", dtype_names[dtype],
                          (unsigned)paths[path], victim);
                    for (row = 0; row < n_rows; row++) {
                        int all = 1, any = 0;
                        for (i = 0; i < n; i++) {
                            int nan = is_nan32(bits_of(get(dtype, x + row * n * size, i)));
                            any |= nan;
                            all &= nan;
                        }
                        check(row == victim ? (b ? any : all) : !any,
                              "NaN in row %zu, the victim is %zu", row, victim);
                    }
                }
            }
            /* NaN in the strength or in v is the caller's, and comes out. */
            memcpy(x, clean, sizeof x);
            project_on(paths[path], x, dtype, 1, n, n, v, NAN, NULL);
            check(is_nan32(bits_of(get(dtype, x, 5))), "NaN scale");
            memcpy(x, clean, sizeof x);
            v[70] = NAN;
            project_on(paths[path], x, dtype, 1, n, n, v, 1, NULL);
            check(is_nan32(bits_of(get(dtype, x, 5))), "NaN in v");
            v[70] = 0.1f;
        }
    }
}

/* ---- The bound and the identities ----------------------------------------------------------- */

typedef struct twofold {
    double high, low;
} twofold;

static twofold twofold_add(twofold sum, double term) {
    volatile double s = sum.high + term, b = s - sum.high;
    volatile double error = (sum.high - (s - b)) + (term - b);
    twofold result;
    result.high = s;
    result.low = sum.low + error;
    return result;
}

static twofold twofold_dot(glpcore_dtype dtype, const void *x, const float *v, size_t n,
                           double *magnitude) {
    twofold sum = {0, 0};
    size_t i;

    *magnitude = 0;
    for (i = 0; i < n; i++) {
        double product = (double)get(dtype, x, i) * (double)v[i];
        sum = twofold_add(sum, product);
        *magnitude += fabs(product);
    }
    return sum;
}

static double spacing16(glpcore_dtype dtype, double value) {
    int exponent, bits = dtype == GLPCORE_F16 ? 11 : 8, least = dtype == GLPCORE_F16 ? -24 : -133;
    frexp(value, &exponent);
    return ldexp(1, exponent - bits > least ? exponent - bits : least);
}

/* |x' - (x - s v)| in about 106 bits, element by element. */
static void check_bound(glpcore_dtype dtype, const void *x, const void *y, const float *v,
                        double scale, size_t n, const char *what) {
    const double u = 0x1p-24;
    double magnitude, s, s_low;
    twofold c = twofold_dot(dtype, x, v, n, &magnitude);
    size_t i, n_wrong = 0;

    c = twofold_add(c, 0);
    s = scale * c.high;
    s_low = fma(scale, c.high, -s) + scale * c.low;
    for (i = 0; i < n; i++) {
        double before = get(dtype, x, i), after = get(dtype, y, i), product = s * v[i];
        twofold error = {0, 0};
        double bound = 2 * u * (fabs(before) + fabs(product)) + 0x1p-149 +
                       (double)n * 0x1p-53 * magnitude * fabs(v[i]) * fabs(scale);

        if (dtype != GLPCORE_F32) {
            bound += spacing16(dtype, fabs(before - product) + bound) / 2;
        }
        error = twofold_add(error, after);
        error = twofold_add(error, -before);
        error = twofold_add(error, product);
        error = twofold_add(error, fma(s, v[i], -product) + s_low * v[i]);
        /* The bound bars overflow: a massive float16 may grow past 65504. */
        if (dtype == GLPCORE_F16 && fabs(before - product) >= 65504) {
            continue;
        }
        n_wrong += !(fabs(error.high + error.low) <= bound);
    }
    check(n_wrong == 0, "%s: %zu of %zu elements of %s beyond the bound", what, n_wrong, n,
          dtype_names[dtype]);
}

static void test_bounds(void) {
    static const size_t sizes[] = {1, 16, 17, 100, 896, 4096};
    size_t t, path, s, i;
    int kind, round;

    for (t = 0; t < 3; t++) {
        for (path = 0; path < n_paths; path++) {
            for (s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                for (round = 0; round < 12; round++) {
                    glpcore_dtype dtype = dtypes[t];
                    size_t n = sizes[s], size = size_of(dtype);
                    char *x = malloc(n * size), *y = malloc(n * size), *z = malloc(n * size);
                    float *v = malloc(n * 4), *w = malloc(n * 4);
                    uint32_t on = paths[path];
                    double scale = round % 3 ? 1 : 3 * uniform(), magnitude, norm = 0, other;
                    twofold rest;

                    kind = round % 4;
                    fill_row(dtype, x, n, kind);
                    fill_vector(v, n, 1);
                    memcpy(y, x, n * size);
                    project_on(on, y, dtype, 1, n, n, v, scale, NULL);
                    check_bound(dtype, x, y, v, scale, n, "bound");

                    for (i = 0; i < n; i++) {
                        double value = get(dtype, x, i);
                        norm += value * value;
                    }
                    norm = sqrt(norm);
                    if (dtype == GLPCORE_F32 && kind != SUBNORMAL) {
                        memcpy(y, x, n * size);
                        project_on(on, y, dtype, 1, n, n, v, 1, NULL);
                        rest = twofold_dot(dtype, y, v, n, &magnitude);
                        check(fabs(rest.high + rest.low) <= 4 * 0x1p-24 * norm,
                              "what is left along v: %g u |x|", fabs(rest.high) / norm * 0x1p24);

                        /* 1 twice is once; 2 twice is nothing; two strengths are one. */
                        memcpy(z, y, n * size);
                        project_on(on, z, dtype, 1, n, n, v, 1, NULL);
                        for (i = 0, other = 0; i < n; i++) {
                            other = fmax(other, fabs((double)get(dtype, z, i) - get(dtype, y, i)));
                        }
                        check(other <= 8 * 0x1p-24 * norm, "scale 1 twice: %g u",
                              other / norm * 0x1p24);
                        memcpy(z, x, n * size);
                        project_on(on, z, dtype, 1, n, n, v, 2, NULL);
                        project_on(on, z, dtype, 1, n, n, v, 2, NULL);
                        for (i = 0, other = 0; i < n; i++) {
                            other = fmax(other, fabs((double)get(dtype, z, i) - get(dtype, x, i)));
                        }
                        check(other <= 16 * 0x1p-24 * norm, "scale 2 twice: %g u",
                              other / norm * 0x1p24);
                        memcpy(z, x, n * size);
                        memcpy(y, x, n * size);
                        project_on(on, z, dtype, 1, n, n, v, 0.3, NULL);
                        project_on(on, z, dtype, 1, n, n, v, -0.8, NULL);
                        project_on(on, y, dtype, 1, n, n, v, 0.3 - 0.8 + 0.3 * 0.8,
                                                NULL);
                        for (i = 0, other = 0; i < n; i++) {
                            other = fmax(other, fabs((double)get(dtype, z, i) - get(dtype, y, i)));
                        }
                        check(other <= 16 * 0x1p-24 * norm, "s1 then s2: %g u",
                              other / norm * 0x1p24);
                        /* Norm m at scale s is norm 1 at s m^2; m a power of two loses nothing. */
                        for (i = 0; i < n; i++) {
                            w[i] = 4 * v[i];
                        }
                        memcpy(z, x, n * size);
                        memcpy(y, x, n * size);
                        project_on(on, z, dtype, 1, n, n, w, 0.05, NULL);
                        project_on(on, y, dtype, 1, n, n, v, 0.05 * 16, NULL);
                        check(difference(dtype, y, z, n) == n, "norm 4 at 0.05");
                    }
                    free(x);
                    free(y);
                    free(z);
                    free(v);
                    free(w);
                }
            }
        }
    }
}

/* ---- One rounding --------------------------------------------------------------------------- */

static float random_float(int exponent_low, int exponent_high) {
    double m = 1 + (double)(random64() >> 12) * 0x1p-52;
    int e = exponent_low + (int)below((size_t)(exponent_high - exponent_low + 1));
    return (float)(ldexp(m, e) * (random64() & 1 ? 1 : -1));
}

/* A float32 with few bits set, so that products and sums meet in ties. */
static float sparse_float(int exponent) {
    double m = 1;
    m += (random64() & 1 ? 1 : -1) * ldexp(1, -1 - (int)below(23));
    return (float)(ldexp(m, exponent) * (random64() & 1 ? 1 : -1));
}

static void test_fma(void) {
    enum { N = 512, N_CALLS = 6000 };
    static float v[N], x[N], incoming[N];
    size_t path, i;
    long call, n_wrong, total;

    for (path = 0; path < n_paths; path++) {
        float triple = 1 + 0x1p-23f, by = (1 - 0x1p-18f) * 0x1p-12f;
        add_on(paths[path], &triple, GLPCORE_F32, 1, 1, 1, &by,
                            (1 + 0x1p-18) * 0x1p-12, NULL);
        check(triple == 0x1.000002p+0f, "the triple gives %a on path %u", (double)triple,
              (unsigned)paths[path]);

        random_state = 77;
        n_wrong = total = 0;
        for (call = 0; call < N_CALLS; call++) {
            float a = 0;
            while (a == 0 || is_nan32(bits_of(a))) {
                a = call % 6 == 0   ? float_of((uint32_t)random64())
                    : call % 6 == 1 ? random_float(-20, 20)
                    : call % 6 == 2 ? sparse_float((int)below(40) - 20)
                    : call % 6 == 3 ? random_float(-80, -60)
                    : call % 6 == 4 ? random_float(60, 70)
                                    : random_float(-3, 3);
            }
            for (i = 0; i < N; i++) {
                switch (call % 6) {
                case 0: /* any bits */
                    v[i] = float_of((uint32_t)random64());
                    x[i] = float_of((uint32_t)random64());
                    break;
                case 1: /* near cancellation */
                    v[i] = random_float(-20, 20);
                    x[i] = float_of(bits_of(-a * v[i]) + (uint32_t)below(5) - 2);
                    break;
                case 2: /* ties */
                    v[i] = sparse_float((int)below(40) - 20);
                    x[i] = sparse_float((int)below(40) - 20);
                    break;
                case 3: /* subnormal results */
                    v[i] = i % 2 ? random_float(-80, -60) : sparse_float(-70);
                    x[i] = i % 3 ? float_of((uint32_t)below(1u << 25)) : 0;
                    break;
                case 4: /* overflow */
                    v[i] = random_float(57, 66);
                    x[i] = random_float(120, 127);
                    break;
                default: /* the product far below x, or x far below the product */
                    v[i] = random_float(-60, 60);
                    x[i] = random_float(-60, 60);
                }
            }
            memcpy(incoming, x, sizeof x);
            add_on(paths[path], x, GLPCORE_F32, 1, N, N, v, a, NULL);
            for (i = 0; i < N; i++) {
                float expected = fmaf(a, v[i], incoming[i]);
                total++;
                if (difference(GLPCORE_F32, &expected, &x[i], 1) != 1) {
                    if (n_wrong++ == 0) {
                        printf("fma(%a, %a, %a): %a, not %a\n", (double)a, (double)v[i],
                               (double)incoming[i], (double)x[i], (double)expected);
                    }
                }
            }
        }
        check(n_wrong == 0, "%ld of %ld fma differ on path %u", n_wrong, total,
              (unsigned)paths[path]);
    }
}

/* Every 16-bit pattern, in and out, and around every tie between two of them. */
static void test_halves(void) {
    enum { ALL = 0x10000 };
    static uint16_t x[ALL], y[ALL];
    static float v[ALL];
    size_t t, path, i;
    int side;

    for (t = 1; t < 3; t++) {
        glpcore_dtype dtype = dtypes[t];
        for (path = 0; path < n_paths; path++) {
            for (i = 0; i < ALL; i++) {
                x[i] = (uint16_t)i;
                v[i] = -0.0f;
            }
            add_on(paths[path], x, dtype, 1, ALL, ALL, v, 1, NULL);
            for (i = 0; i < ALL; i++) {
                check(is_nan16(dtype, (uint16_t)i) ? is_nan16(dtype, x[i]) : x[i] == i,
                      "%s %04zx comes back as %04x", dtype_names[dtype], i, x[i]);
            }
            for (i = 0; i < ALL; i++) {
                x[i] = y[i] = (uint16_t)i;
                v[i] = (float)(decode(dtype, (uint16_t)i) * uniform());
                v[i] = is_nan32(bits_of(v[i])) ? 1 : v[i];
            }
            add_on(paths[path], x, dtype, 1, ALL, ALL, v, 0.37, NULL);
            oracle_add(dtype, y, v, 0.37, ALL);
            for (i = 0; i < ALL; i++) {
                check(difference(dtype, &x[i], &y[i], 1) == 1, "%s %04zx: %04x, not %04x",
                      dtype_names[dtype], i, x[i], y[i]);
            }
            for (side = -2; side <= 2; side++) {
                for (i = 0; i < ALL; i++) {
                    uint16_t half = (uint16_t)(i & 0x7fff), top = infinity16(dtype);
                    double low = half < top ? decoded[dtype][half] : (double)NAN;
                    double high = half + 1 < top ? decoded[dtype][half + 1]
                                                 : 2 * low - decoded[dtype][half - 1 + !half];
                    float middle = (float)((low + high) / 2);
                    v[i] = is_nan32(bits_of(middle)) || (side < 0 && middle == 0)
                               ? middle
                               : float_of(bits_of(middle) + (uint32_t)side);
                    v[i] = i & 0x8000 ? -v[i] : v[i];
                    x[i] = 0;
                }
                add_on(paths[path], x, dtype, 1, ALL, ALL, v, 1, NULL);
                for (i = 0; i < ALL; i++) {
                    uint16_t expected = encode(dtype, v[i] == 0 ? 0.0f : v[i]);
                    check(x[i] == expected || (is_nan16(dtype, x[i]) && is_nan16(dtype, expected)),
                          "%a as %s: %04x, not %04x on path %u", (double)v[i], dtype_names[dtype],
                          x[i], expected, (unsigned)paths[path]);
                }
            }
        }
    }
}

/* A NaN whose fraction the rounding would carry out of, into a zero or an infinity. */
static void test_nan_payloads(void) {
    static const uint32_t nans[] = {0x7fffffff, 0xffffffff, 0x7fff8000, 0x7fc00001, 0x7f800001,
                                    0xff800001, 0x7fbfffff, 0xffffe000};
    enum { N = 37 };
    size_t t, path, i, p;

    for (t = 0; t < 3; t++) {
        for (path = 0; path < n_paths; path++) {
            for (p = 0; p < sizeof nans / sizeof *nans; p++) {
                glpcore_dtype dtype = dtypes[t];
                char x[N * 4];
                float v[N];

                for (i = 0; i < N; i++) {
                    uint32_t bits = i % 3 ? nans[p] : 0;
                    memcpy(&v[i], &bits, 4); /* a float assignment may make it quiet */
                    put(dtype, x, i, 1);
                }
                add_on(paths[path], x, dtype, 1, N, N, v, 1, NULL);
                for (i = 0; i < N; i++) {
                    int nan = is_nan32(bits_of(get(dtype, x, i)));
                    check(nan == (i % 3 != 0), "NaN %08x in v, %s element %zu path %u",
                          (unsigned)nans[p], dtype_names[dtype], i, (unsigned)paths[path]);
                }
            }
        }
    }
}

/* ---- The order of summation ------------------------------------------------------------------ */

/* Products over sixty octaves that cancel in pairs: nearly all that is left of the sum is what the
 * order of the additions makes of it. Ordinary data hides a wrong order behind float32. */
static void test_order(void) {
    static const size_t sizes[] = {2, 7, 16, 17, 23, 31, 32, 33, 48, 64, 100, 255, 577, 896, 4097};
    size_t t, s, path, i, row;
    int round;

    for (t = 0; t < 3; t++) {
        for (s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            for (round = 0; round < 20; round++) {
                glpcore_dtype dtype = dtypes[t];
                size_t n = sizes[s], row_bytes = n * size_of(dtype);
                char *incoming = malloc(3 * row_bytes), *x = malloc(3 * row_bytes);
                char *expected = malloc(3 * row_bytes);
                float *v = malloc(n * 4);
                size_t *order = malloc(n * sizeof *order);
                const float *two[2];
                const double alphas[2] = {0x1p-50, -0x1p-52};

                for (row = 0; row < 3; row++) {
                    fill_row(dtype, incoming + row * row_bytes, n, PLAIN);
                }
                for (i = 0; i < n; i++) {
                    order[i] = i;
                }
                for (i = 0; i < n; i++) {
                    size_t other = i + below(n - i), kept = order[i];
                    order[i] = order[other];
                    order[other] = kept;
                }
                for (i = 0; i < n; i++) {
                    size_t to = order[i], from = order[i & ~(size_t)1];
                    if (i % 2 == 0) {
                        v[to] = i + 1 < n ? (float)ldexp(gaussian(), (int)below(60)) : 1;
                        continue;
                    }
                    v[to] = -v[from];
                    for (row = 0; row < 3; row++) {
                        char *at = incoming + row * row_bytes;
                        put(dtype, at, to, get(dtype, at, from));
                    }
                }
                two[0] = two[1] = v;
                for (path = 0; path < n_paths; path++) {
                    size_t k;
                    for (k = 1; k <= 2; k++) {
                        memcpy(x, incoming, 3 * row_bytes);
                        memcpy(expected, incoming, 3 * row_bytes);
                        for (row = 0; row < 3; row++) {
                            oracle_project(dtype, expected + row * row_bytes, two, alphas, k, n);
                        }
                        project_k_on(paths[path], x, dtype, 3, n, n, two, alphas, k,
                                                  NULL);
                        check(difference(dtype, x, expected, 3 * n) == 3 * n,
                              "order of summation, %s n %zu rank %zu path %u",
                              dtype_names[dtype], n, k, (unsigned)paths[path]);
                    }
                }
                free(incoming);
                free(x);
                free(expected);
                free(v);
                free(order);
            }
        }
    }
}

/* ---- Rank k ---------------------------------------------------------------------------------- */

static void test_ranks(void) {
    static const size_t ranks[] = {1, 2, 3, 4, 8, 17, 255, 256};
    static const size_t sizes[] = {1, 5, 15, 16, 17, 33, 70, 256, 257, 530, 1025};
    size_t t, r, s, j, row, path;

    for (t = 0; t < 3; t++) {
        for (r = 0; r < sizeof ranks / sizeof *ranks; r++) {
            for (s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                glpcore_dtype dtype = dtypes[t];
                size_t k = ranks[r], n = sizes[s], size = size_of(dtype), n_rows = 3;
                size_t stride = n + below(3), extent = ((n_rows - 1) * stride + n) * size;
                char *incoming = calloc(1, extent), *expected = malloc(extent);
                char *x = guarded(extent, 1);
                const float **d = malloc(k * sizeof *d);
                double *alphas = malloc(k * sizeof *alphas);

                for (j = 0; j < k; j++) {
                    float *v = guarded(n * 4, 1);
                    fill_vector(v, n, 1);
                    if (j % 7 == 3) {
                        memset(v, 0, n * 4);
                    }
                    d[j] = v;
                    alphas[j] = j % 5 == 2 ? 0 : uniform();
                }
                for (row = 0; row < n_rows; row++) {
                    fill_row(dtype, incoming + row * stride * size, n, (int)below(N_KINDS));
                }
                memcpy(expected, incoming, extent);
                for (row = 0; row < n_rows; row++) {
                    oracle_project(dtype, expected + row * stride * size, d, alphas, k, n);
                }
                for (path = 0; path < n_paths; path++) {
                    memcpy(x, incoming, extent);
                    check(project_k_on(paths[path], x, dtype, n_rows, n, stride, d,
                                                    alphas, k, NULL) == GLPCORE_OK,
                          "rank %zu", k);
                    for (row = 0; row < n_rows; row++) {
                        size_t at = row * stride * size;
                        check(difference(dtype, x + at, expected + at, n) == n,
                              "rank %zu %s n %zu path %u row %zu", k, dtype_names[dtype], n,
                              (unsigned)paths[path], row);
                    }
                    if (k == 1) {
                        memcpy(expected, incoming, extent);
                        project_on(paths[path], expected, dtype, n_rows, n, stride,
                                                d[0], alphas[0], NULL);
                        check(memcmp(x, expected, extent) == 0, "rank 1 is not project_rows");
                    }
                }
                for (j = 0; j < k; j++) {
                    guarded_free((void *)(uintptr_t)d[j], n * 4, 1);
                }
                guarded_free(x, extent, 1);
                free(incoming);
                free(expected);
                free(d);
                free(alphas);
            }
        }
    }
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static void test_arguments(void) {
    static float x[64], v[16], before[64];
    static const float *d[257];
    static double alphas[257];
    glpcore_executor bad = {sizeof bad, 4, NULL, NULL}, small = {0, 4, run_backwards, NULL};
    const size_t huge = SIZE_MAX / 2;
    size_t i;

    for (i = 0; i < 64; i++) {
        x[i] = before[i] = (float)i;
    }
    for (i = 0; i < 257; i++) {
        d[i] = v;
        alphas[i] = 1;
    }
    v[0] = 1;

#define REFUSED(call) check((call) == GLPCORE_INVALID, "accepted: %s", #call)
#define TAKEN(call) check((call) == GLPCORE_OK, "refused: %s", #call)
    REFUSED(glpcore_project_rows(NULL, GLPCORE_F32, 1, 16, 16, v, 1, NULL));
    REFUSED(glpcore_project_rows(x, GLPCORE_F32, 1, 16, 16, NULL, 1, NULL));
    REFUSED(glpcore_project_rows(x, GLPCORE_F32, 1, 16, 16, NULL, 0, NULL));
    REFUSED(glpcore_project_rows(x, (glpcore_dtype)0, 1, 16, 16, v, 1, NULL));
    REFUSED(glpcore_project_rows(x, (glpcore_dtype)4, 1, 16, 16, v, 1, NULL));
    REFUSED(glpcore_project_rows(x, GLPCORE_F32, 2, 16, 15, v, 1, NULL));
    REFUSED(glpcore_project_rows(x, GLPCORE_F32, 2, 16, 0, v, 1, NULL));
    REFUSED(glpcore_project_rows((char *)x + 2, GLPCORE_F32, 1, 16, 16, v, 1, NULL));
    REFUSED(glpcore_project_rows((char *)x + 1, GLPCORE_F16, 1, 16, 16, v, 1, NULL));
    REFUSED(glpcore_project_rows((char *)x + 1, GLPCORE_BF16, 1, 16, 16, v, 1, NULL));
    REFUSED(glpcore_project_rows(x, GLPCORE_F32, 1, 15, 15,
                                 (const float *)(const void *)((char *)v + 2), 1, NULL));
    REFUSED(glpcore_project_rows(x, GLPCORE_F32, huge, 16, 16, v, 1, NULL));
    REFUSED(glpcore_project_rows(x, GLPCORE_F32, SIZE_MAX, 16, 16, v, 1, NULL));
    REFUSED(glpcore_project_rows(x, GLPCORE_F32, 2, 16, huge, v, 1, NULL));
    REFUSED(glpcore_project_rows(x, GLPCORE_F16, 1, huge, huge, v, 1, NULL));
    REFUSED(glpcore_project_rows(x, GLPCORE_F32, 1, SIZE_MAX, SIZE_MAX, v, 1, NULL));
    REFUSED(glpcore_project_rows(x, GLPCORE_F32, 3, SIZE_MAX / 8 + 1, SIZE_MAX / 8 + 1, v, 1,
                                 NULL));
    REFUSED(glpcore_project_rows((void *)(UINTPTR_MAX - 15), GLPCORE_F32, 1, 16, 16, v, 0, NULL));
    REFUSED(glpcore_project_rows(x, GLPCORE_F32, 1, 16, 16, v, 1, &bad));
    REFUSED(glpcore_project_rows(x, GLPCORE_F32, 1, 16, 16, v, 1, &small));
    REFUSED(glpcore_add_rows(NULL, GLPCORE_F32, 1, 16, 16, v, 1, NULL));
    REFUSED(glpcore_add_rows(x, GLPCORE_F32, 1, 16, 16, NULL, 1, NULL));
    REFUSED(glpcore_add_rows(x, GLPCORE_F32, 2, 16, 15, v, 1, NULL));
    REFUSED(glpcore_project_rows_k(x, GLPCORE_F32, 1, 16, 16, NULL, alphas, 1, NULL));
    REFUSED(glpcore_project_rows_k(x, GLPCORE_F32, 1, 16, 16, d, NULL, 1, NULL));
    REFUSED(glpcore_project_rows_k(x, GLPCORE_F32, 1, 16, 16, d, alphas, 257, NULL));
    d[3] = NULL;
    REFUSED(glpcore_project_rows_k(x, GLPCORE_F32, 1, 16, 16, d, alphas, 8, NULL));
    check(memcmp(x, before, sizeof x) == 0, "a refused call wrote");

    TAKEN(glpcore_project_rows(NULL, GLPCORE_F32, 0, 16, 16, NULL, 1, NULL));
    TAKEN(glpcore_project_rows(x, GLPCORE_F32, 3, 0, 0, v, 1, NULL));
    TAKEN(glpcore_project_rows_k(x, GLPCORE_F32, 1, 16, 16, NULL, NULL, 0, NULL));
    TAKEN(glpcore_project_rows_k(NULL, GLPCORE_F32, 0, 16, 16, NULL, NULL, 5, NULL));
    TAKEN(glpcore_add_rows(NULL, GLPCORE_BF16, 0, 16, 16, NULL, 1, NULL));
    check(memcmp(x, before, sizeof x) == 0, "an empty call wrote");
    x[0] = 3;
    TAKEN(glpcore_project_rows(x, GLPCORE_F32, 1, 16, 0, v, 1, NULL));
    check(x[0] == 0 && memcmp(x + 1, before + 1, sizeof x - 4) == 0, "one row, stride ignored");
    TAKEN(glpcore_add_rows(x, GLPCORE_F32, 1, 16, 0, v, 2.5, NULL));
    check(x[0] == 2.5f, "the public add");
    d[3] = v;
    TAKEN(glpcore_project_rows_k(x, GLPCORE_F32, 1, 16, 16, d, alphas, 2, NULL));
    check(x[0] == -2.5f, "both coefficients come from the incoming row");
}

int main(int argc, char **argv) {
    int subset = argc > 1 && strcmp(argv[1], "subset") == 0;
    int half;

    for (half = 0; half < 0x8000; half++) {
        decoded[GLPCORE_F16][half] = decode(GLPCORE_F16, (uint16_t)half);
        decoded[GLPCORE_BF16][half] = decode(GLPCORE_BF16, (uint16_t)half);
    }
    find_paths();
    test_arguments();
    test_zeros();
    if (!subset) {
        test_isolation();
        test_fma();
        test_halves();
        test_nan_payloads();
        test_order();
        test_shapes();
        test_batches();
        test_ranks();
        test_bounds();
    }
    printf("test_project: %ld passed, %ld failed\n", n_passed, n_failed);
    return n_failed != 0;
}
