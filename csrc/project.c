#include "project.h"

#include "cpu.h"

/* ---- Factors that are not finite ------------------------------------------------------------ */

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

static size_t project_size_of(glpcore_dtype dtype) {
    return dtype == GLPCORE_F32 ? 4 : 2;
}

/* ---- Choosing and cutting ------------------------------------------------------------------- */

static const glpcore_kernels *project_kernels_for(uint32_t cpu) {
    const glpcore_kernels *kernels = glpcore_kernels_x86(cpu);

    kernels = kernels ? kernels : glpcore_kernels_arm(cpu);
    return kernels ? kernels : &glpcore_kernels_portable;
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

/* Cut between pairs of rows, which the kernels take together: the first n_pairs % n_tasks tasks take
 * one pair more. A row is never cut: its sum has one order. */
static void project_run_task(void *context, size_t index) {
    project_cut *cut = context;
    size_t n_pairs = cut->n_rows / 2 + cut->n_rows % 2;
    size_t share = n_pairs / cut->n_tasks, extra = n_pairs % cut->n_tasks;
    size_t first = 2 * (index * share + (index < extra ? index : extra));
    size_t most = 2 * (share + (index < extra)), left = cut->n_rows - first;
    int accepted = cut->kernel(cut->rows, first, most < left ? most : left);

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
        cut.n_tasks = cut.n_tasks < n_rows / 2 ? cut.n_tasks : n_rows / 2;
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
