/* The promise of docs/numerics.md, against an oracle written from that page alone.
 *
 *   test_project          everything
 *   test_project subset   what must hold even where the library is built with -ffast-math
 *   test_project quick    a little of everything, for an emulator
 */
#include "rows.h"

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
        for (i = 1; i <= 70 + sizeof more / sizeof *more; i += mode == QUICK ? 7 : 1) {
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
    const size_t n = 4097, n_rows = mode == QUICK ? 67 : 331, stride = 4100;
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
            for (threads = 0; threads <= 5; threads += mode == QUICK ? 2 : 1) {
                glpcore_pool *pool = NULL;
                crew c = {{sizeof(glpcore_executor), threads, run_backwards, NULL}, 1};

                c.executor.self = &c;
                memcpy(many, incoming, extent);
                project_on(paths[path], many, dtype, n_rows, n, stride, v, 0.9,
                                        &c.executor);
                check(same(dtype, one, many, extent / size), "batch of 1 and N differ, %s path %u",
                      dtype_names[dtype], (unsigned)paths[path]);
                check(mode == QUICK || c.most == (threads ? threads : 1), "%zu tasks of %zu",
                      c.most, threads);
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
        uint32_t signalling;

        for (i = 0; i < n_rows; i++) {
            fill_row(dtype, x + i * n * size, n, i == 0 ? BITS : i == 1 ? PLAIN : SPECIAL);
        }
        put(dtype, x, 3, -0.0f);
        /* A signalling NaN, which every arithmetic instruction would make quiet. */
        signalling = dtype == GLPCORE_F16 ? 0x7c01 : dtype == GLPCORE_BF16 ? 0x7f81 : 0x7f800001;
        memcpy(x + (n + 7) * size, &signalling, size);
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
            /* Nor do two of them: a NaN keeps its payload. */
            two[0] = two[1] = v;
            alphas[0] = 2;
            alphas[1] = -1;
            project_k_on(on, x, dtype, n_rows, n, n, two, alphas, 2, NULL);
            check(memcmp(x, before, sizeof x) == 0, "two zero vectors changed %s, path %u",
                  dtype_names[dtype], (unsigned)on);
            memcpy(x, before, sizeof x);
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

/* A vector that is not finite is refused before any row is written, where a call asks for that. */
static void test_finite(void) {
    static const uint32_t bad[] = {0x7fc00000, 0x7f800001, 0xffffffff, 0x7f800000, 0xff800000};
    enum { LONGEST = 83, N_ROWS = 5 };
    size_t t, path, n, b, i;
    float v[LONGEST], w[LONGEST];

    for (t = 0; t < 3; t++) {
        for (path = 0; path < n_paths; path++) {
            for (n = 1; n <= LONGEST; n += mode == QUICK ? 9 : 1) {
                glpcore_dtype dtype = dtypes[t];
                char x[LONGEST * N_ROWS * 4], before[sizeof x];
                const float *two[2] = {w, v};
                double alphas[2] = {1, 1};
                uint32_t on = paths[path];

                fill_row(dtype, before, n * N_ROWS, PLAIN);
                memcpy(x, before, sizeof x);
                fill_vector(w, n, 1);
                for (b = 0; b < sizeof bad / sizeof *bad; b++) {
                    size_t at = b == 0 ? 0 : b == 1 ? n - 1 : below(n);

                    fill_vector(v, n, 1);
                    memcpy(&v[at], &bad[b], 4);
                    for (i = 0; i < 2; i++) {
                        check(glpcore_rows_run(on, GLPCORE_ROWS_FINITE, x, dtype, N_ROWS, n, n,
                                               two + i, alphas, 2 - i, NULL) == GLPCORE_REFUSED &&
                                  memcmp(x, before, n * N_ROWS * size_of(dtype)) == 0,
                              "%08x at %zu of %zu taken, rank %zu", (unsigned)bad[b], at, n, 2 - i);
                    }
                    check(glpcore_rows_run(on, GLPCORE_ROWS_FINITE | GLPCORE_ROWS_ADD, x, dtype,
                                           N_ROWS, n, n, two + 1, alphas, 1,
                                           NULL) == GLPCORE_REFUSED &&
                              memcmp(x, before, n * N_ROWS * size_of(dtype)) == 0,
                          "%08x at %zu of %zu added", (unsigned)bad[b], at, n);
                    alphas[1] = 0; /* then nobody reads it */
                    check(glpcore_rows_run(on, GLPCORE_ROWS_FINITE, x, dtype, N_ROWS, n, n, two,
                                           alphas, 2, NULL) == GLPCORE_OK,
                          "refused for what alpha 0 hides");
                    alphas[1] = 1;
                    memcpy(x, before, sizeof x);
                }
            }
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

/* Where a 16-bit pattern stands among all values, -Inf first; -0 is 0. */
static int rank16(uint16_t half) {
    return half & 0x8000 ? -(half & 0x7fff) : half;
}

/* Whether `after` is near enough to high + low. A float32 lies within the bound; a 16-bit value is
 * what to nearest even makes of something within the bound: one rounding more, and no other. */
static int within(glpcore_dtype dtype, const void *row, size_t i, twofold exact, double bound) {
    twofold error = twofold_add(exact, -(double)get(dtype, row, i));
    double low, high;
    uint16_t half;

    if (dtype == GLPCORE_F32) {
        return fabs(error.high + error.low) <= bound;
    }
    memcpy(&half, (const char *)row + 2 * i, 2);
    low = nextafter(exact.high + (exact.low - bound), -INFINITY);
    high = nextafter(exact.high + (exact.low + bound), INFINITY);
    return !is_nan16(dtype, half) && rank16(encode(dtype, low)) <= rank16(half) &&
           rank16(half) <= rank16(encode(dtype, high));
}

/* |x' - (x - sum_j alpha_j (d_j . x) d_j)| in about 106 bits, element by element. */
static void check_bound(glpcore_dtype dtype, const void *x, const void *y, const float *const *d,
                        const double *alphas, size_t k, size_t n, const char *what) {
    const double u = 0x1p-24;
    double magnitude[32], s[32], s_low[32];
    size_t i, j, n_wrong = 0;

    for (j = 0; j < k; j++) {
        twofold c = twofold_dot(dtype, x, d[j], n, &magnitude[j]);
        s[j] = alphas[j] * c.high;
        s_low[j] = fma(alphas[j], c.high, -s[j]) + alphas[j] * c.low;
    }
    for (i = 0; i < n; i++) {
        double before = get(dtype, x, i), terms = fabs(before), dots = 0;
        twofold exact = {before, 0};

        for (j = 0; j < k; j++) {
            double v = d[j][i], product = s[j] * v;
            exact = twofold_add(exact, -product);
            exact = twofold_add(exact, -(fma(s[j], v, -product) + s_low[j] * v));
            terms += fabs(product);
            dots += (double)n * 0x1p-53 * magnitude[j] * fabs(v) * fabs(alphas[j]);
        }
        n_wrong += !within(dtype, y, i, exact,
                           ((double)k + 1) * u * terms + (double)k * 0x1p-149 + dots);
    }
    check(n_wrong == 0, "%s: %zu of %zu elements of %s beyond the bound", what, n_wrong, n,
          dtype_names[dtype]);
}

/* The two largest channels of x weigh the same in v, so that what cancels in x does in the dot. */
static void cancel_in_dot(glpcore_dtype dtype, const void *x, float *v, size_t n) {
    size_t i, first = 0, second = n > 1;
    double norm = 0;

    for (i = 0; i < n; i++) {
        if (fabs((double)get(dtype, x, i)) > fabs((double)get(dtype, x, first))) {
            first = i;
        }
    }
    second = first == 0 ? second : 0;
    for (i = 0; i < n; i++) {
        if (i != first &&
            fabs((double)get(dtype, x, i)) > fabs((double)get(dtype, x, second))) {
            second = i;
        }
    }
    v[second] = v[first];
    for (i = 0; i < n; i++) {
        norm += (double)v[i] * v[i];
    }
    for (i = 0; i < n; i++) {
        v[i] = (float)(v[i] / sqrt(norm));
    }
    v[second] = v[first];
}

static void test_bounds_of_ranks(void) {
    static const size_t sizes[] = {1, 17, 100, 896, 2049};
    static const size_t ranks[] = {2, 3, 8, 32};
    size_t t, path, s, r, j;
    int kind;

    for (t = 0; t < 3; t++) {
        for (path = 0; path < n_paths; path++) {
            for (s = 0; s < (mode == QUICK ? 3 : sizeof sizes / sizeof *sizes); s++) {
                for (r = 0; r < sizeof ranks / sizeof *ranks; r++) {
                    for (kind = PLAIN; kind <= SUBNORMAL; kind++) {
                        glpcore_dtype dtype = dtypes[t];
                        size_t n = sizes[s], k = ranks[r], bytes = n * size_of(dtype);
                        char *x = malloc(bytes), *y = malloc(bytes);
                        float *basis = malloc(k * n * sizeof *basis);
                        const float *d[32];
                        double alphas[32];

                        fill_row(dtype, x, n, kind);
                        for (j = 0; j < k; j++) {
                            fill_vector(basis + j * n, n, 1);
                            if (kind == CANCELLING) {
                                cancel_in_dot(dtype, x, basis + j * n, n);
                            }
                            d[j] = basis + j * n;
                            alphas[j] = j % 3 == 1 ? 2 * uniform() : 1;
                        }
                        memcpy(y, x, bytes);
                        project_k_on(paths[path], y, dtype, 1, n, n, d, alphas, k, NULL);
                        check_bound(dtype, x, y, d, alphas, k, n, "rank k");
                        free(x);
                        free(y);
                        free(basis);
                    }
                }
            }
        }
    }
}

static void test_bounds(void) {
    static const size_t sizes[] = {1, 16, 17, 100, 896, 4096};
    size_t t, path, s, i;
    int kind, round;

    for (t = 0; t < 3; t++) {
        for (path = 0; path < n_paths; path++) {
            for (s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                for (round = 0; round < (mode == QUICK ? 4 : 12); round++) {
                    glpcore_dtype dtype = dtypes[t];
                    size_t n = sizes[s], size = size_of(dtype);
                    char *x = malloc(n * size), *y = malloc(n * size), *z = malloc(n * size);
                    float *v = malloc(n * 4), *w = malloc(n * 4);
                    uint32_t on = paths[path];
                    double scale = round % 3 ? 1 : 3 * uniform(), magnitude, norm = 0, other;
                    const float *d = v;
                    twofold rest;

                    kind = round % 4;
                    fill_row(dtype, x, n, kind);
                    fill_vector(v, n, 1);
                    if (kind == CANCELLING) {
                        cancel_in_dot(dtype, x, v, n);
                    }
                    memcpy(y, x, n * size);
                    project_on(on, y, dtype, 1, n, n, v, scale, NULL);
                    check_bound(dtype, x, y, &d, &scale, 1, n, "bound");

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

/* The triple that two roundings get wrong, in every place of a row: by add, by rank 1 and as the
 * second of two directions. */
static void test_triple(uint32_t cpu) {
    enum { LONGEST = 67 };
    const float one = 1 + 0x1p-23f, by = (1 - 0x1p-18f) * 0x1p-12f;
    const double factor = (1 + 0x1p-18) * 0x1p-12;
    float x[3][LONGEST], v[LONGEST], away[LONGEST];
    size_t n, row, i, way;

    for (n = 1; n <= LONGEST; n++) {
        for (way = 0; way < 3; way++) {
            const float *two[2] = {away, v};
            double alphas[2] = {1, -factor / ((double)n * one * by)};
            size_t n_wrong = 0;

            for (i = 0; i < n; i++) {
                v[i] = by;
                away[i] = 0;
                for (row = 0; row < 3; row++) {
                    x[row][i] = one;
                }
            }
            if (way == 0) {
                add_on(cpu, x, GLPCORE_F32, 3, n, LONGEST, v, factor, NULL);
            } else {
                project_k_on(cpu, x, GLPCORE_F32, 3, n, LONGEST, two + (way == 1),
                             alphas + (way == 1), way, NULL);
            }
            for (row = 0; row < 3; row++) {
                for (i = 0; i < n; i++) {
                    n_wrong += x[row][i] != 0x1.000002p+0f;
                }
            }
            check(n_wrong == 0, "the triple, way %zu, n %zu: %zu wrong, first %a on path %u", way,
                  n, n_wrong, (double)x[0][0], (unsigned)cpu);
        }
    }
}

static void test_fma(void) {
    enum { N = 512 };
    const long n_calls = mode == QUICK ? 60 : 6000;
    static float v[N], x[N], incoming[N];
    size_t path, i;
    long call, n_wrong, total;

    for (path = 0; path < n_paths; path++) {
        test_triple(paths[path]);
        random_state = 77;
        n_wrong = total = 0;
        for (call = 0; call < n_calls; call++) {
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
            for (side = -2; side <= 2; side += mode == QUICK ? 4 : 1) {
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
                    uint16_t expected[2] = {encode(dtype, v[i] == 0 ? 0.0f : v[i]), 0};
                    check(same(dtype, &x[i], expected, 1),
                          "%a as %s: %04x, not %04x on path %u", (double)v[i], dtype_names[dtype],
                          x[i], expected[0], (unsigned)paths[path]);
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

static void test_order(void) {
    static const size_t sizes[] = {2, 7, 16, 17, 23, 31, 32, 33, 48, 64, 100, 255, 577, 896, 4097};
    size_t t, s, path, row;
    int round;

    for (t = 0; t < 3; t++) {
        for (s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            for (round = 0; round < (mode == QUICK ? 2 : 20); round++) {
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
                make_order(order, n);
                order_vector(v, n, order);
                for (row = 0; row < 3; row++) {
                    order_row(dtype, incoming + row * row_bytes, n, order);
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
                size_t k = ranks[r], n = sizes[s], size = size_of(dtype);
                size_t n_rows = 1 + below(6);
                size_t stride = n + below(3), extent = ((n_rows - 1) * stride + n) * size;
                char *incoming, *expected, *x;
                const float **d;
                double *alphas;

                if (mode == QUICK && k * n > 4000) {
                    continue;
                }
                incoming = calloc(1, extent);
                expected = malloc(extent);
                x = guarded(extent, 1);
                d = malloc(k * sizeof *d);
                alphas = malloc(k * sizeof *alphas);

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
    begin(argc, argv);
    test_arguments();
    test_zeros();
    test_finite();
    if (mode != SUBSET) {
        test_isolation();
        test_fma();
        test_halves();
        test_nan_payloads();
        test_order();
        test_shapes();
        test_batches();
        test_ranks();
        test_bounds();
        test_bounds_of_ranks();
    }
    return finish("test_project");
}
