#include "project.h"

#include "cpu.h"

/* ---- The numbers, in portable C ------------------------------------------------------------- */

#define PROJECT_LANES 16

/* Elements widened at a time: 1 KB of stack, and a multiple of the lanes. */
#define PROJECT_CHUNK 256

static int project_all_zero(const float *v, size_t n) {
    size_t i;

    for (i = 0; i < n; i++) {
        if (glpcore_float_bits(v[i]) << 1) {
            return 0;
        }
    }
    return 1;
}

static int project_all_finite(const float *v, size_t n) {
    uint32_t bad = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        bad |= (glpcore_float_bits(v[i]) & 0x7f800000) == 0x7f800000;
    }
    return !bad;
}

/* 0 * Inf must not appear: a v of zeros leaves even a row of infinities alone, whatever the scale. */
glpcore_term glpcore_term_of_infinite(const glpcore_rows *rows, const float *v) {
    if (project_all_zero(v, rows->n_embd)) {
        return GLPCORE_TERM_NONE;
    }
    if (rows->finite_only && !project_all_finite(v, rows->n_embd)) {
        return GLPCORE_TERM_REFUSED;
    }
    return GLPCORE_TERM_OTHER;
}

static float project_float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float project_widen_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
    uint32_t fraction = half & 0x3ff;

    if (exponent == 31) {
        return project_float_of(sign | 0x7f800000 | fraction << 13);
    }
    if (exponent == 0) {
        return project_float_of(sign | glpcore_float_bits((float)fraction * 0x1p-24f));
    }
    return project_float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

/* word / 2^shift to nearest even, 0 < shift < 32. */
static uint32_t project_shift_even(uint32_t word, uint32_t shift) {
    return (word + ((1u << (shift - 1)) - 1) + (word >> shift & 1)) >> shift;
}

static uint16_t project_narrow_f16(float value) {
    uint32_t bits = glpcore_float_bits(value), magnitude = bits & 0x7fffffff, half;

    if (magnitude > 0x7f800000) {
        half = 0x7e00 | (magnitude >> 13 & 0x3ff);
    } else if (magnitude >= 0x477ff000) { /* 65520, half way from 65504 to the next */
        half = 0x7c00;
    } else if (magnitude >= 0x38800000) { /* 2^-14, the smallest normal */
        half = project_shift_even(magnitude - (112u << 23), 13);
    } else if (magnitude >= 0x33000000) { /* 2^-25, half the smallest subnormal */
        half = project_shift_even((magnitude & 0x7fffff) | 0x800000, 126 - (magnitude >> 23));
    } else {
        half = 0;
    }
    return (uint16_t)((bits >> 16 & 0x8000) | half);
}

static uint16_t project_narrow_bf16(float value) {
    uint32_t bits = glpcore_float_bits(value);

    /* The carry of the rounding would turn some NaN into infinities. */
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    return (uint16_t)project_shift_even(bits, 16);
}

/* a * b + c with one rounding. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__FP_FAST_FMAF)
static float project_fma(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
#else
/* libm's fmaf may be a plain float64 expression, which rounds twice. Here the product is exact in
 * float64 and the sum is rounded to odd: where it is inexact its last bit is set, so that the
 * second rounding, 29 bits higher, sees on which side of a tie the exact value lies. */
static float project_fma(float a, float b, float c) {
    double product = (double)a * b, sum = product + c;
    double part = sum - product, error = (product - (sum - part)) + (c - part);
    uint64_t bits = glpcore_double_bits(sum);

    if (glpcore_double_bits(error) << 1 && !(bits & 1) && (bits >> 52 & 0x7ff) != 0x7ff) {
        bits += glpcore_double_bits(error) >> 63 == bits >> 63 ? 1 : (uint64_t)-1;
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
}
#endif

static void project_widen(float *to, const unsigned char *from, glpcore_dtype dtype, size_t n) {
    size_t i;
    uint16_t half;

    if (dtype == GLPCORE_F32) {
        memcpy(to, from, n * sizeof *to);
        return;
    }
    for (i = 0; i < n; i++) {
        memcpy(&half, from + 2 * i, sizeof half);
        to[i] = dtype == GLPCORE_F16 ? project_widen_f16(half)
                                     : project_float_of((uint32_t)half << 16);
    }
}

static void project_narrow(unsigned char *to, const float *from, glpcore_dtype dtype, size_t n) {
    size_t i;
    uint16_t half;

    if (dtype == GLPCORE_F32) {
        memcpy(to, from, n * sizeof *from);
        return;
    }
    for (i = 0; i < n; i++) {
        half = dtype == GLPCORE_F16 ? project_narrow_f16(from[i]) : project_narrow_bf16(from[i]);
        memcpy(to + 2 * i, &half, sizeof half);
    }
}

static size_t project_size_of(glpcore_dtype dtype) {
    return dtype == GLPCORE_F32 ? 4 : 2;
}

static double project_dot(const unsigned char *x, glpcore_dtype dtype, const float *v, size_t n) {
    double sums[PROJECT_LANES] = {0};
    float chunk[PROJECT_CHUNK];
    size_t at, i, lane, width;

    for (at = 0; at < n; at += PROJECT_CHUNK) {
        size_t count = n - at < PROJECT_CHUNK ? n - at : PROJECT_CHUNK;

        project_widen(chunk, x + at * project_size_of(dtype), dtype, count);
        for (i = 0; i + PROJECT_LANES <= count; i += PROJECT_LANES) {
            for (lane = 0; lane < PROJECT_LANES; lane++) {
                sums[lane] += (double)chunk[i + lane] * (double)v[at + i + lane];
            }
        }
        for (lane = 0; i + lane < count; lane++) {
            sums[lane] += (double)chunk[i + lane] * (double)v[at + i + lane];
        }
    }
    for (width = PROJECT_LANES / 2; width > 0; width /= 2) {
        for (lane = 0; lane < width; lane++) {
            sums[lane] += sums[lane + width];
        }
    }
    return sums[0];
}

/* x + sum of factors[j] * d[j], rounded to float32 after every j and to the dtype at the end. */
static void project_update(unsigned char *x, glpcore_dtype dtype, const float *const *d,
                           const float *factors, size_t k, size_t n) {
    float chunk[PROJECT_CHUNK];
    size_t at, i, j;

    for (at = 0; at < n; at += PROJECT_CHUNK) {
        size_t count = n - at < PROJECT_CHUNK ? n - at : PROJECT_CHUNK;

        project_widen(chunk, x + at * project_size_of(dtype), dtype, count);
        for (j = 0; j < k; j++) {
            for (i = 0; i < count; i++) {
                chunk[i] = project_fma(factors[j], d[j][at + i], chunk[i]);
            }
        }
        project_narrow(x + at * project_size_of(dtype), chunk, dtype, count);
    }
}

static int project_portable(const glpcore_rows *rows, size_t first, size_t n_rows) {
    const float *d[GLPCORE_MAX_RANK];
    float factors[GLPCORE_MAX_RANK];
    unsigned char *x = rows->x + first * rows->row_bytes;

    for (; n_rows > 0; n_rows--, x += rows->row_bytes) {
        size_t j, k = 0;

        for (j = 0; j < rows->k; j++) {
            const float *v = rows->d[j];
            double c = project_dot(x, rows->dtype, v, rows->n_embd);
            glpcore_term term = glpcore_term_of(rows, rows->scales[j], c, v, &factors[k]);

            if (term == GLPCORE_TERM_REFUSED) {
                return 0;
            }
            d[k] = v;
            k += term != GLPCORE_TERM_NONE;
        }
        if (k > 0) {
            project_update(x, rows->dtype, d, factors, k, rows->n_embd);
        }
    }
    return 1;
}

static int project_add_portable(const glpcore_rows *rows, size_t first, size_t n_rows) {
    unsigned char *x = rows->x + first * rows->row_bytes;
    float factor = (float)rows->scales[0];

    for (; n_rows > 0; n_rows--, x += rows->row_bytes) {
        project_update(x, rows->dtype, rows->d, &factor, 1, rows->n_embd);
    }
    return 1;
}

static const glpcore_kernels project_portable_kernels = {
    {project_portable, project_portable, project_portable},
    {project_add_portable, project_add_portable, project_add_portable}};

/* ---- Choosing and cutting ------------------------------------------------------------------- */

static const glpcore_kernels *project_kernels_for(uint32_t cpu) {
    const glpcore_kernels *kernels = NULL;

#ifdef GLPCORE_X86
    kernels = glpcore_kernels_x86(cpu);
#else
    (void)cpu;
#endif
    return kernels ? kernels : &project_portable_kernels;
}

/* Less than this per task stays on fewer threads: waking one is not free. */
#define PROJECT_MIN_TASK_BYTES ((size_t)256 << 10)

typedef struct project_cut {
    const glpcore_rows *rows;
    glpcore_rows_kernel *kernel;
    size_t n_rows;
    size_t n_tasks;
    int accepted;
} project_cut;

/* The first n_rows % n_tasks tasks take one row more. A row is never cut: its sum has one order. */
static void project_run_task(void *context, size_t index) {
    project_cut *cut = context;
    size_t share = cut->n_rows / cut->n_tasks, extra = cut->n_rows % cut->n_tasks;
    size_t first = index * share + (index < extra ? index : extra);
    int accepted = cut->kernel(cut->rows, first, share + (index < extra));
    if (index == 0) { /* all tasks give the same answer */
        cut->accepted = accepted;
    }
}

static glpcore_status project_run(const glpcore_rows *rows, glpcore_rows_kernel *kernel, size_t n_rows,
                        const glpcore_executor *executor) {
    project_cut cut;

    cut.rows = rows;
    cut.kernel = kernel;
    cut.n_rows = n_rows;
    cut.n_tasks = 1;
    cut.accepted = 1;
    if (executor) {
        /* No overflow: the rows lie in memory. */
        size_t bytes = n_rows * rows->n_embd * project_size_of(rows->dtype);
        size_t worth = bytes / PROJECT_MIN_TASK_BYTES;
        cut.n_tasks = executor->n_threads < worth ? executor->n_threads : worth;
        cut.n_tasks = cut.n_tasks < n_rows ? cut.n_tasks : n_rows;
    }
    if (cut.n_tasks > 1) {
        executor->run(executor->self, project_run_task, &cut, cut.n_tasks);
    } else {
        cut.accepted = kernel(rows, 0, n_rows);
    }
    return cut.accepted ? GLPCORE_OK : GLPCORE_REFUSED;
}

/* ---- The caller's arguments ----------------------------------------------------------------- */

static int project_fits(const void *x, size_t dtype_size, size_t n_rows, size_t n_embd,
                        size_t stride) {
    size_t limit = PTRDIFF_MAX / dtype_size;

    if (n_embd > PTRDIFF_MAX / sizeof(float)) {
        return 0;
    }
    if (n_rows > 1 && stride > 0 && n_rows - 1 > (limit - n_embd) / stride) {
        return 0;
    }
    return ((n_rows - 1) * (n_rows > 1 ? stride : 0) + n_embd) * dtype_size <=
           UINTPTR_MAX - (uintptr_t)x;
}

static int project_aligned(const void *pointer, size_t size) {
    return (uintptr_t)pointer % size == 0;
}

/* Fills *rows but for its vectors. */
static glpcore_status project_check(glpcore_rows *rows, void *x, glpcore_dtype dtype,
                                    size_t n_rows, size_t n_embd, size_t row_stride,
                                    const glpcore_executor *executor) {
    if (dtype != GLPCORE_F32 && dtype != GLPCORE_F16 && dtype != GLPCORE_BF16) {
        return GLPCORE_INVALID;
    }
    if (executor && (executor->struct_size < sizeof *executor ||
                     (executor->n_threads > 1 && !executor->run))) {
        return GLPCORE_INVALID;
    }
    if (n_rows == 0) {
        return GLPCORE_OK;
    }
    if (!x || !project_aligned(x, project_size_of(dtype)) || (n_rows > 1 && row_stride < n_embd) ||
        !project_fits(x, project_size_of(dtype), n_rows, n_embd, row_stride)) {
        return GLPCORE_INVALID;
    }
    rows->x = x;
    rows->n_embd = n_embd;
    rows->row_bytes = n_rows > 1 ? row_stride * project_size_of(dtype) : 0;
    rows->dtype = dtype;
    return GLPCORE_OK;
}

/* Whether a term with this scale could change a bit of any x. */
static int project_counts(unsigned flags, double scale) {
    if (flags & GLPCORE_ROWS_ADD) {
        return glpcore_float_bits((float)scale) << 1 != 0;
    }
    return glpcore_double_bits(scale) << 1 != 0;
}

glpcore_status glpcore_rows_run(uint32_t cpu, unsigned flags, void *x, glpcore_dtype dtype,
                                size_t n_rows, size_t n_embd, size_t row_stride,
                                const float *const *d, const double *scales, size_t k,
                                const glpcore_executor *executor) {
    const glpcore_kernels *kernels = project_kernels_for(cpu);
    glpcore_rows rows;
    const float *active[GLPCORE_MAX_RANK];
    double factors[GLPCORE_MAX_RANK];
    glpcore_status status = project_check(&rows, x, dtype, n_rows, n_embd, row_stride, executor);
    size_t j;

    if (status != GLPCORE_OK || k > GLPCORE_MAX_RANK) {
        return GLPCORE_INVALID;
    }
    if (n_rows == 0 || k == 0) {
        return GLPCORE_OK;
    }
    if (!d || !scales) {
        return GLPCORE_INVALID;
    }
    rows.k = 0;
    for (j = 0; j < k; j++) {
        if (!d[j] || !project_aligned(d[j], sizeof(float))) {
            return GLPCORE_INVALID;
        }
        if (project_counts(flags, scales[j])) {
            active[rows.k] = d[j];
            factors[rows.k++] = scales[j];
        }
    }
    if (rows.k == 0 || n_embd == 0) {
        return GLPCORE_OK;
    }
    rows.d = active;
    rows.scales = factors;
    rows.finite_only = (flags & GLPCORE_ROWS_FINITE) != 0;
    if (!(flags & GLPCORE_ROWS_ADD)) {
        return project_run(&rows, kernels->project[dtype - 1], n_rows, executor);
    }
    if (rows.finite_only && !project_all_finite(active[0], n_embd)) { /* no dot would tell */
        return GLPCORE_REFUSED;
    }
    return project_run(&rows, kernels->add[dtype - 1], n_rows, executor);
}

glpcore_status glpcore_project_rows_k(void *x, glpcore_dtype dtype, size_t n_rows, size_t n_embd,
                                      size_t row_stride, const float *const *d,
                                      const double *alphas, size_t k,
                                      const glpcore_executor *executor) {
    return glpcore_rows_run(glpcore_cpu(), 0, x, dtype, n_rows, n_embd, row_stride, d, alphas, k,
                            executor);
}

glpcore_status glpcore_project_rows(void *x, glpcore_dtype dtype, size_t n_rows, size_t n_embd,
                                    size_t row_stride, const float *v, double scale,
                                    const glpcore_executor *executor) {
    return glpcore_rows_run(glpcore_cpu(), 0, x, dtype, n_rows, n_embd, row_stride, &v, &scale, 1,
                            executor);
}

glpcore_status glpcore_add_rows(void *x, glpcore_dtype dtype, size_t n_rows, size_t n_embd,
                                size_t row_stride, const float *v, double scale,
                                const glpcore_executor *executor) {
    return glpcore_rows_run(glpcore_cpu(), GLPCORE_ROWS_ADD, x, dtype, n_rows, n_embd, row_stride,
                            &v, &scale, 1, executor);
}
