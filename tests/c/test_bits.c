/* The same bits for a row, whatever the instruction set, the batch, the place, the stride, the
 * alignment and the threads (docs/numerics.md).
 *
 *   test_bits          all of it
 *   test_bits 4        about one case of four
 *   test_bits quick    one case of thirty, for an emulator
 *
 * The reference of every row is that row alone, by mask 0: the portable C, which on x86-64 is built
 * with the compiler's default flags, so without FMA, and so also says that a processor without it
 * gives these bits. test_project holds the portable C against an oracle. Each batch then runs under
 * every subset of this processor's features, and each of its rows alone as well.
 *
 * x and every vector lie in memory of their own between two pages that fault, directly behind the
 * first, directly before the second, or anywhere between with every alignment; the vectors are
 * mapped read-only. What lies around and between the rows must keep its bytes. The choice of cases
 * is no full product: sweep() draws what a case leaves open, and main() says at the end which pairs
 * of properties were left out, which is a failure.
 */
#include "rows.h"

#include <signal.h>

#if defined(__SANITIZE_ADDRESS__)
#  define WITH_ASAN 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define WITH_ASAN 1
#  endif
#endif

enum {
    MAX_N = 16385,
    MAX_ROWS = 67,
    MAX_K = 17,
    ANY = 1 << 30,      /* a property that sweep() draws */
    EDGE = 4096,        /* bytes around the rows that must stay */
    MOST_ELEMENTS = 1 << 16 /* rows * width of a drawn case */
};

/* ---- A case ---------------------------------------------------------------------------------- */

enum { PROJECT, ADD, RANK_2, RANK_3, RANK_8, RANK_ODD, N_OPS };
enum { AT_START, AT_END, BETWEEN, N_PLACES };

/* Rows that leave the common path, among others. */
enum {
    ORDINARY,
    ORDERED,     /* shows the order of summation; the vector's own kind goes with it */
    A_NAN,
    AN_INF,
    TWO_INF,     /* Inf - Inf: the dot is NaN */
    ALL_ZERO,    /* -0 and +0 */
    ORTHOGONAL,  /* the dot is exactly +0, and -0 elements would show an update */
    OVERFLOWING, /* finite, the coefficient or the update is not */
    HUGE_CHANNEL,
    PAIR_OF_HUGE,
    TINY,
    ANY_BITS,
    N_ROW_KINDS
};

enum {
    V_UNIT,
    V_ORDERED,
    V_ZERO,
    V_ZERO_HEAD,
    V_ZERO_TAIL,
    V_LAST, /* one element, the last */
    V_TINY,
    V_LARGE,
    V_NOT_FINITE,
    N_V_KINDS
};

typedef struct batch {
    glpcore_dtype dtype;
    size_t op, k, n, n_rows, gap;
    size_t place, shift; /* BETWEEN: the alignment in bytes */
    size_t v_place[MAX_K], v_shift[MAX_K];
    size_t v_kind[MAX_K];
    size_t threads, in_pool;
    double scales[MAX_K];
    unsigned char row_kind[MAX_ROWS];
} batch;

static const char *const op_names[N_OPS] = {"project", "add",    "rank 2",
                                            "rank 3",  "rank 8", "odd rank"};
static batch now;
static uint32_t now_cpu;

static void describe(void) {
    size_t row;

    printf("%s %s mask %u: n %zu, rows %zu, k %zu, gap %zu, place %zu+%zu, v %zu+%zu kind %zu, "
           "scale %g, threads %zu%s, kinds",
           op_names[now.op], dtype_names[now.dtype], (unsigned)now_cpu, now.n, now.n_rows, now.k,
           now.gap, now.place, now.shift, now.v_place[0], now.v_shift[0], now.v_kind[0],
           now.scales[0], now.threads, now.in_pool ? " in a pool" : "");
    for (row = 0; row < now.n_rows; row++) {
        printf(" %d", now.row_kind[row]);
    }
    printf("\n");
}

static void verify(int condition, const char *what, size_t row) {
    check(condition, "%s, row %zu:", what, row);
    if (!condition && n_failed <= 30) {
        describe();
    }
}

#ifndef WITH_ASAN
/* Not safe in a signal handler, but the last act of a failed run, and it says which case it was. */
static void fault(int number) {
    printf("FAIL signal %d, memory outside was touched: ", number);
    describe();
    printf("test_bits: %ld passed, %ld failed\n", n_passed, n_failed + 1);
    fflush(stdout);
    _Exit(1);
}
#endif

/* ---- Memory ---------------------------------------------------------------------------------- */

typedef struct arena {
    unsigned char *base;
    size_t size;
} arena;

static arena x_arena, alone_arena, v_arena[MAX_K];

static arena make_arena(size_t least) {
    arena a;

#if defined(_WIN32)
    a.size = least;
#else
    a.size = pages_for(least);
#endif
    a.base = guarded(a.size, 1);
    return a;
}

/* Where `extent` bytes go. */
static unsigned char *place_in(const arena *a, size_t extent, size_t place, size_t shift) {
    if (place == AT_START) {
        return a->base;
    }
    if (place == AT_END) {
        return a->base + (a->size - extent);
    }
    return a->base + 64 + shift;
}

/* Bytes beyond an object that a read would notice (NaN in every type) or not (any). */
static void litter(unsigned char *at, size_t count, int nans) {
    size_t i;

    if (nans) {
        memset(at, 0xff, count);
        return;
    }
    for (i = 0; i < count; i++) {
        at[i] = (unsigned char)random64();
    }
}

static void protect(const arena *a, int writable) {
#if !defined(_WIN32)
    if (mprotect(a->base, a->size, writable ? PROT_READ | PROT_WRITE : PROT_READ) != 0) {
        perror("mprotect");
        exit(2);
    }
#else
    (void)a;
    (void)writable;
#endif
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* Two draws never stand in one expression: the order would be the compiler's, and the choice of
 * cases is to be the same everywhere. */

static size_t order[MAX_N + 1];

static void make_v(float *v, size_t n, size_t kind) {
    size_t i, half = n / 2 > 0 ? n - 1 - below(n / 2) : 0;

    fill_vector(v, n, kind != V_LARGE);
    switch (kind) {
    case V_ORDERED:
        order_vector(v, n, order);
        break;
    case V_ZERO:
        for (i = 0; i < n; i++) {
            v[i] = random64() & 1 ? 0.0f : -0.0f;
        }
        break;
    case V_ZERO_HEAD:
        for (i = 0; i < half; i++) {
            v[i] = i % 2 ? 0.0f : -0.0f;
        }
        break;
    case V_ZERO_TAIL:
        for (i = half; i < n; i++) {
            v[i] = i % 3 ? 0.0f : -0.0f;
        }
        break;
    case V_LAST:
        memset(v, 0, n * sizeof *v);
        v[n - 1] = -0.7f;
        break;
    case V_TINY:
        for (i = 0; i < n; i++) {
            v[i] = float_of((uint32_t)random64() & 0x800fffff);
        }
        break;
    case V_LARGE:
        for (i = 0; i < n; i++) {
            v[i] *= 1e18f;
        }
        break;
    case V_NOT_FINITE:
        v[below(n)] = random64() & 1 ? NAN : -INFINITY;
        break;
    default:
        break;
    }
}

/* What v must be for an ORTHOGONAL row. */
static void make_twins(float *v, size_t n, size_t a, size_t b) {
    if (n > 1) {
        v[b] = v[a];
    }
}

static void make_row(glpcore_dtype dtype, unsigned char *x, size_t n, int kind, size_t a,
                     size_t b) {
    size_t i, size = size_of(dtype), at = below(n);

    fill_row(dtype, x, n,
             kind == HUGE_CHANNEL   ? MASSIVE
             : kind == PAIR_OF_HUGE ? CANCELLING
             : kind == TINY         ? SUBNORMAL
             : kind == ANY_BITS     ? BITS
                                    : PLAIN);
    switch (kind) {
    case ORDERED:
        order_row(dtype, x, n, order);
        break;
    case A_NAN: {
        uint32_t bits = dtype == GLPCORE_F16 ? 0x7c01 : dtype == GLPCORE_BF16 ? 0xff81 : 0x7f800001;
        memcpy(x + at * size, &bits, size);
        break;
    }
    case AN_INF:
    case TWO_INF:
        put(dtype, x, at, random64() & 1 ? INFINITY : -INFINITY);
        if (kind == TWO_INF) {
            put(dtype, x, below(n), INFINITY);
            put(dtype, x, below(n), -INFINITY);
        }
        break;
    case ALL_ZERO:
    case ORTHOGONAL:
        for (i = 0; i < n; i++) {
            put(dtype, x, i, random64() & 1 ? 0.0f : -0.0f);
        }
        if (kind == ORTHOGONAL && n > 1) {
            put(dtype, x, a, 3.25f);
            put(dtype, x, b, -3.25f);
        }
        break;
    case OVERFLOWING:
        for (i = 0; i < n; i++) {
            put(dtype, x, i, (float)(uniform() * (dtype == GLPCORE_F16 ? 65504 : 3e38)));
        }
        break;
    default:
        break;
    }
}

/* ---- Executors ------------------------------------------------------------------------------- */

static glpcore_pool *pools[5];

/* The tasks in an order of no pattern: the even ones from the last, then the odd ones. */
static void run_oddly(void *self, void (*task)(void *context, size_t index), void *context,
                      size_t n_tasks) {
    size_t i;

    (void)self;
    for (i = n_tasks; i-- > 0;) {
        if (i % 2 == 0) {
            task(context, i);
        }
    }
    for (i = 1; i < n_tasks; i += 2) {
        task(context, i);
    }
}

/* ---- Running a case -------------------------------------------------------------------------- */

static glpcore_status call(uint32_t cpu, void *x, size_t n_rows, size_t stride,
                           const float *const *d, const glpcore_executor *executor) {
    now_cpu = cpu;
    return glpcore_rows_run(cpu, now.op == ADD ? GLPCORE_ROWS_ADD : 0, x, now.dtype, n_rows, now.n,
                            stride, d, now.scales, now.k, executor);
}

static int untouched(const unsigned char *a, const unsigned char *b, size_t n) {
    return n == 0 || memcmp(a, b, n) == 0;
}

static void run_case(void) {
    static unsigned char *incoming, *reference;
    const size_t n = now.n, size = size_of(now.dtype), row_bytes = n * size;
    const size_t stride = n + now.gap, step = stride * size;
    const size_t extent = now.n_rows > 0 ? (now.n_rows - 1) * step + row_bytes : 0;
    unsigned char *x = place_in(&x_arena, extent, now.place, now.shift), *from = x, *to;
    size_t before = (size_t)(x - x_arena.base), after, row, path, j, a = below(n);
    size_t b = n > 1 ? (a + 1 + below(n - 1)) % n : a;
    const float *d[MAX_K];
    glpcore_executor oddly = {sizeof oddly, 0, run_oddly, NULL};
    const glpcore_executor *executor = NULL;
    int nans = (int)below(2), twins = (int)below(2);

    if (!incoming) {
        incoming = malloc(x_arena.size);
        reference = malloc(x_arena.size);
    }
    before = before < EDGE ? before : EDGE;
    from -= before;
    after = (size_t)(x_arena.base + x_arena.size - (x + extent));
    after = after < EDGE ? after : EDGE;
    to = x + extent + after;

    make_order(order, n);
    for (j = 0; j < now.k; j++) {
        size_t bytes = n * sizeof(float), end;
        unsigned char *at = place_in(&v_arena[j], bytes, now.v_place[j], now.v_shift[j]);

        protect(&v_arena[j], 1);
        end = (size_t)(v_arena[j].base + v_arena[j].size - (at + bytes));
        litter(at + bytes, end < 256 ? end : 256, 1);
        if (at - v_arena[j].base >= 64) {
            litter(at - 64, 64, 1);
        }
        make_v((float *)(void *)at, n, now.v_kind[j]);
        if (j == 0 || twins) {
            make_twins((float *)(void *)at, n, a, b);
        }
        protect(&v_arena[j], 0);
        d[j] = (const float *)(const void *)at;
    }
    litter(incoming, (size_t)(to - from), nans);
    for (row = 0; row < now.n_rows; row++) {
        make_row(now.dtype, incoming + before + row * step, n, now.row_kind[row], a, b);
    }

    /* The reference, and every row alone under the other masks. */
    memcpy(reference, incoming, (size_t)(to - from));
    for (row = 0; row < now.n_rows; row++) {
        unsigned char *alone = place_in(&alone_arena, row_bytes, row % N_PLACES, row * size % 64);
        unsigned char *expected = reference + before + row * step;

        for (path = 0; path < n_paths; path++) {
            memcpy(alone, incoming + before + row * step, row_bytes);
            verify(call(paths[path], alone, 1, row % 2 ? 0 : stride, d, NULL) == GLPCORE_OK,
                   "status", row);
            if (path == 0) {
                memcpy(expected, alone, row_bytes);
            } else {
                verify(same(now.dtype, alone, expected, n), "alone it differs from portable C",
                       row);
            }
        }
    }

    if (now.threads > 0) {
        oddly.n_threads = now.threads;
        executor = now.in_pool ? glpcore_pool_executor(pools[now.threads]) : &oddly;
    }
    for (path = 0; path < n_paths; path++) {
        size_t wrong = now.n_rows;

        memcpy(from, incoming, (size_t)(to - from));
        verify(call(paths[path], x, now.n_rows, stride, d, executor) == GLPCORE_OK, "status", 0);
        for (row = 0; row < now.n_rows; row++) {
            if (!same(now.dtype, x + row * step, reference + before + row * step, n)) {
                wrong = row;
                break;
            }
        }
        verify(wrong == now.n_rows, "in the batch it differs from alone", wrong);
        wrong = now.n_rows;
        for (row = 0; row + 1 < now.n_rows; row++) {
            size_t gap_at = row * step + row_bytes;
            if (!untouched(x + gap_at, incoming + before + gap_at, step - row_bytes)) {
                wrong = row;
                break;
            }
        }
        verify(wrong == now.n_rows, "the gap behind it was written", wrong);
        verify(untouched(from, incoming, before), "memory before x was written", 0);
        verify(untouched(x + extent, incoming + before + extent, after),
               "memory behind x was written", now.n_rows);
    }
}

/* ---- Choosing cases -------------------------------------------------------------------------- */

/* What was seen with each dtype (0 to 2) and operation. */
static unsigned char seen_n[3][N_OPS][MAX_N + 1], seen_rows[3][N_OPS][MAX_ROWS + 1];
static unsigned char seen_shift[3][N_OPS][64], seen_v_shift[3][N_OPS][64];
static unsigned char seen_place[3][N_OPS][N_PLACES][N_PLACES], seen_threads[3][N_OPS][5][2];
static unsigned char seen_row_kind[3][N_OPS][N_ROW_KINDS], seen_v_kind[3][N_OPS][N_V_KINDS];
static unsigned char seen_tail_rows[3][N_OPS][16][4]; /* n % 16 and rows % 4 */

static void note(void) {
    size_t t = (size_t)now.dtype - 1, row;

    seen_n[t][now.op][now.n] = 1;
    seen_rows[t][now.op][now.n_rows] = 1;
    if (now.place == BETWEEN) {
        seen_shift[t][now.op][now.shift] = 1;
    }
    if (now.v_place[0] == BETWEEN) {
        seen_v_shift[t][now.op][now.v_shift[0]] = 1;
    }
    seen_place[t][now.op][now.place][now.v_place[0]] = 1;
    seen_threads[t][now.op][now.threads][now.in_pool] = 1;
    seen_v_kind[t][now.op][now.v_kind[0]] = 1;
    seen_tail_rows[t][now.op][now.n % 16][now.n_rows % 4] = 1;
    for (row = 0; row < now.n_rows; row++) {
        seen_row_kind[t][now.op][now.row_kind[row]] = 1;
    }
}

/* Half of the rows ordinary. */
static unsigned char draw_row_kind(void) {
    return (unsigned char)(below(2) ? ORDINARY : below(N_ROW_KINDS));
}

static double draw_scale(int ordered) {
    static const double scales[] = {1, 1, 1, 0.35, -1.7, 2, 1e-3, 0.1, 1e30, 1e-60};
    if (ordered) {
        return below(2) ? 0x1p-50 : -0x1p-47;
    }
    return below(64) == 0 ? (random64() & 1 ? (double)NAN : (double)INFINITY)
                          : scales[below(sizeof scales / sizeof *scales)];
}

/* A case with these properties; ANY leaves one open. kinds: of the rows, or NULL. */
static void sweep(glpcore_dtype dtype, size_t op, size_t n, size_t n_rows, size_t shift,
                  size_t v_shift, size_t v_kind, const unsigned char *kinds) {
    static const size_t gaps[] = {0, 0, 1, 16};
    static const size_t odd_ranks[] = {1, 5, 7, 9, 17};
    size_t j, row, g = below(6);
    int ordered;

    now.dtype = dtype;
    now.op = op;
    now.k = op == RANK_2 ? 2 : op == RANK_3 ? 3 : op == RANK_8 ? 8 : 1;
    now.k = op == RANK_ODD ? odd_ranks[below(5)] : now.k;
    now.n = n == ANY ? 1 + below(200) : n;
    now.gap = g < 4 ? gaps[g] : g == 4 ? now.n : 2 + below(40);
    if (n_rows == ANY) {
        size_t most = MOST_ELEMENTS / now.k / now.n;
        most = most > 24 ? 24 : most > 5 ? most : 5;
        n_rows = 1 + below(most);
    }
    now.n_rows = n_rows;
    now.place = shift == ANY ? below(N_PLACES) : BETWEEN;
    now.shift = shift == ANY ? below(64) / size_of(dtype) * size_of(dtype) : shift;
    now.threads = below(5);
    now.in_pool = now.threads > 0 && below(4) == 0;
    v_kind = v_kind != ANY ? v_kind : below(3) ? V_UNIT : below(N_V_KINDS);
    ordered = v_kind == V_ORDERED;
    for (j = 0; j < now.k; j++) {
        now.v_place[j] = j > 0 || v_shift == ANY ? below(N_PLACES) : BETWEEN;
        now.v_shift[j] = j > 0 || v_shift == ANY ? 4 * below(16) : v_shift;
        now.v_kind[j] = j == 0 ? v_kind : ordered ? V_ORDERED : below(3) ? V_UNIT
                                                                        : below(V_NOT_FINITE);
        now.scales[j] = draw_scale(ordered);
        if (j > 0 && below(7) == 0) {
            now.scales[j] = 0;
        }
    }
    for (row = 0; row < now.n_rows; row++) {
        now.row_kind[row] = kinds ? kinds[row] : draw_row_kind();
        if (!kinds && ordered && below(8) > 0) {
            now.row_kind[row] = ORDERED;
        }
    }
    if (thin == 1 || below(thin) == 0) {
        note();
        run_case();
    }
}

static const size_t models[] = {576, 896, 2048, 4096, 5120, 7168, 16384};
enum { N_MODELS = sizeof models / sizeof *models };

/* Every width: once of any kind, and once such that the order of the sum shows. */
static void test_widths(void) {
    size_t t, op, n, m;
    int side;

    for (t = 0; t < 3; t++) {
        for (op = 0; op < N_OPS; op++) {
            for (n = 1; n <= 130; n++) {
                sweep(dtypes[t], op, n, ANY, ANY, ANY, V_UNIT, NULL);
                sweep(dtypes[t], op, n, ANY, ANY, ANY, V_ORDERED, NULL);
            }
            for (m = 0; m < N_MODELS; m++) {
                for (side = -1; side <= 1; side++) {
                    n = models[m] + (size_t)side;
                    sweep(dtypes[t], op, n, ANY, ANY, ANY,
                          (m + (size_t)(side + 1)) % 2 ? V_ORDERED : V_UNIT, NULL);
                }
            }
        }
    }
}

static void test_row_counts(void) {
    size_t t, op, rows;

    for (t = 0; t < 3; t++) {
        for (op = 0; op < N_OPS; op++) {
            for (rows = 0; rows <= MAX_ROWS; rows++) {
                sweep(dtypes[t], op, 1 + below(130), rows, ANY, ANY, ANY, NULL);
                sweep(dtypes[t], op, 16 * (1 + below(6)), rows, ANY, ANY, V_ORDERED, NULL);
            }
        }
    }
}

/* Every remainder of 16 with few rows of every number, so that a tail meets each end of a batch. */
static void test_tails(void) {
    size_t t, op, n, rows;

    for (t = 0; t < 3; t++) {
        for (op = 0; op < N_OPS; op++) {
            for (n = 1; n <= 16; n++) {
                for (rows = 1; rows <= 8; rows++) {
                    sweep(dtypes[t], op, n + 16 * below(5), rows, ANY, ANY, ANY, NULL);
                }
            }
        }
    }
}

/* Every alignment of x, each with every one of v; every operation with each of both. */
static void test_alignments(void) {
    size_t t, shift, v_shift, op;

    for (t = 0; t < 3; t++) {
        for (shift = 0; shift < 64; shift += size_of(dtypes[t])) {
            for (v_shift = 0; v_shift < 64; v_shift += 4) {
                op = (shift / size_of(dtypes[t]) + v_shift / 4) % N_OPS;
                sweep(dtypes[t], op, ANY, 1 + below(6), shift, v_shift, ANY, NULL);
            }
            for (op = 0; op < N_OPS; op++) {
                sweep(dtypes[t], op, 100 + below(100), 4, shift, shift & ~(size_t)3, ANY, NULL);
            }
        }
    }
}

/* Every pattern of ordinary rows and others, in batches that a pipeline of pairs fills and drains
 * in every way: one row must fall back without a change to its neighbours. */
static void test_patterns(void) {
    static const unsigned char odd_ones[] = {A_NAN,      AN_INF,      TWO_INF, ALL_ZERO,
                                             ORTHOGONAL, OVERFLOWING, TINY};
    static const size_t ops[] = {PROJECT, RANK_2, PROJECT, RANK_8, PROJECT, RANK_ODD, ADD};
    unsigned char kinds[MAX_ROWS];
    size_t t, rows, row, i = 0, pattern, odd;

    for (t = 0; t < 3; t++) {
        for (rows = 1; rows <= 8; rows++) {
            for (pattern = 0; pattern < (size_t)1 << rows; pattern++) {
                for (odd = 0; odd < sizeof odd_ones; odd++) {
                    /* All of them where there are few. */
                    if (rows > 5 && odd != pattern % sizeof odd_ones) {
                        continue;
                    }
                    for (row = 0; row < rows; row++) {
                        kinds[row] = pattern >> row & 1 ? odd_ones[odd] : ORDINARY;
                    }
                    sweep(dtypes[t], ops[i++ % 7], 1 + below(70), rows, ANY, ANY, V_UNIT, kinds);
                }
            }
        }
        for (rows = 9; rows <= MAX_ROWS; rows++) {
            for (row = 0; row < rows; row++) {
                kinds[row] = below(4) ? ORDINARY : odd_ones[below(sizeof odd_ones)];
            }
            sweep(dtypes[t], PROJECT, 1 + below(70), rows, ANY, ANY, V_UNIT, kinds);
        }
    }
}

static void test_vectors(void) {
    size_t t, op, kind, n;

    for (t = 0; t < 3; t++) {
        for (op = 0; op < N_OPS; op++) {
            for (kind = 0; kind < N_V_KINDS; kind++) {
                for (n = 1; n < 64; n += 1 + below(12)) {
                    sweep(dtypes[t], op, n, 1 + below(9), ANY, ANY, kind, NULL);
                }
            }
        }
    }
}

/* Batches of a size that is cut among threads. */
static void test_threads(void) {
    static const size_t ops[] = {PROJECT, ADD, RANK_2};
    size_t t, o, m, threads, in_pool;

    for (t = 0; t < 3; t++) {
        for (o = 0; o < 3; o++) {
            for (m = 3; m < (mode == QUICK ? 4 : N_MODELS); m += 3) { /* 4096 and 16384 */
                for (threads = 2; threads <= 4; threads++) {
                    for (in_pool = 0; in_pool < 2; in_pool++) {
                        size_t i, kept = thin;

                        if (thin > 1 && below(thin) != 0) {
                            continue;
                        }
                        thin = ANY; /* fills `now` and runs nothing */
                        sweep(dtypes[t], ops[o], models[m], m == 3 ? 61 + below(7) : 31 + below(4),
                              ANY, ANY, V_UNIT, NULL);
                        thin = kept;
                        now.threads = threads;
                        now.in_pool = in_pool;
                        now.gap = below(17);
                        for (i = 0; i < now.k; i++) {
                            now.v_kind[i] = V_UNIT;
                        }
                        note();
                        run_case();
                    }
                }
            }
        }
    }
}

/* ---- Whether the choice covers what it should ------------------------------------------------ */

static void covered(const unsigned char *seen, size_t stride, size_t first, size_t end, size_t by,
                    const char *what) {
    size_t t, op, i;

    for (t = 0; t < 3; t++) {
        for (op = 0; op < N_OPS; op++) {
            for (i = first; i < end; i += by ? by : size_of(dtypes[t])) {
                check(seen[(t * N_OPS + op) * stride + i], "%s %zu is not among the cases, %s %s",
                      what, i, op_names[op], dtype_names[dtypes[t]]);
            }
        }
    }
}

static void test_coverage(void) {
    size_t m;

    covered(&seen_n[0][0][0], MAX_N + 1, 1, 131, 1, "width");
    for (m = 0; m < N_MODELS; m++) {
        covered(&seen_n[0][0][0], MAX_N + 1, models[m] - 1, models[m] + 2, 1, "width");
    }
    covered(&seen_rows[0][0][0], MAX_ROWS + 1, 0, MAX_ROWS + 1, 1, "number of rows");
    covered(&seen_shift[0][0][0], 64, 0, 64, 0, "alignment of x");
    covered(&seen_v_shift[0][0][0], 64, 0, 64, 4, "alignment of v");
    covered(&seen_place[0][0][0][0], N_PLACES * N_PLACES, 0, N_PLACES * N_PLACES, 1, "place");
    covered(&seen_threads[0][0][0][0], 10, 2, 10, 1, "threads, in a pool or not");
    covered(&seen_row_kind[0][0][0], N_ROW_KINDS, 0, N_ROW_KINDS, 1, "kind of row");
    covered(&seen_v_kind[0][0][0], N_V_KINDS, 0, N_V_KINDS, 1, "kind of v");
    covered(&seen_tail_rows[0][0][0][0], 64, 0, 64, 1, "n % 16 and rows % 4");
}

int main(int argc, char **argv) {
    size_t i;

    begin(argc, argv);
#ifdef WITH_ASAN
    thin *= 2;
#else
    signal(SIGSEGV, fault);
#  ifdef SIGBUS
    signal(SIGBUS, fault);
#  endif
#endif
    x_arena = make_arena((size_t)MAX_ROWS * (MAX_N + 64) * 4 + 4 * EDGE);
    alone_arena = make_arena((MAX_N + 64) * 4);
    for (i = 0; i < MAX_K; i++) {
        v_arena[i] = make_arena((MAX_N + 64) * 4);
    }
    for (i = 1; i < 5; i++) {
        check(glpcore_pool_create(i, &pools[i]) == GLPCORE_OK, "a pool of %zu", i);
    }
    test_widths();
    test_row_counts();
    test_tails();
    test_alignments();
    test_patterns();
    test_vectors();
    test_threads();
    if (thin == 1) {
        test_coverage();
    }
    for (i = 1; i < 5; i++) {
        glpcore_pool_free(pools[i]);
    }
    return finish("test_bits");
}
