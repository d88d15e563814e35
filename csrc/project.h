/* Between the argument checks and the kernels; internal. */
#ifndef GLPCORE_PROJECT_H
#define GLPCORE_PROJECT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "include/glpcore.h"
#include "strict.h"

/* Rows to work on: k vectors, every scale other than +-0. */
typedef struct glpcore_rows {
    unsigned char *x;
    size_t n_embd;
    size_t row_bytes; /* from one row to the next */
    glpcore_dtype dtype;
    const float *const *d;
    const double *scales;
    size_t k;
    int finite_only; /* refuse vectors that hold NaN or Inf */
} glpcore_rows;

/* 0 when a vector was refused. No row is written then, of any share: every dot with such a vector
 * is NaN or infinite, so each kernel meets it in its first row. */
typedef int glpcore_rows_kernel(const glpcore_rows *rows, size_t first, size_t n_rows);

/* One instruction set's kernels, by dtype - 1. */
typedef struct glpcore_kernels {
    glpcore_rows_kernel *project[3];
    glpcore_rows_kernel *add[3]; /* k is 1 */
} glpcore_kernels;

extern const glpcore_kernels glpcore_kernels_portable;

/* The best that `cpu` allows, or NULL; always NULL where it is the other family of processors. */
const glpcore_kernels *glpcore_kernels_x86(uint32_t cpu);
const glpcore_kernels *glpcore_kernels_arm(uint32_t cpu);

/* What a call does beyond projecting. */
#define GLPCORE_ROWS_ADD 1u    /* x + scale * v; k is 1 */
#define GLPCORE_ROWS_FINITE 2u /* GLPCORE_REFUSED, x untouched, when a vector holds NaN or Inf */

/* Every public function of rows, with at most the instructions of `cpu` (a subset of
 * glpcore_cpu()). */
glpcore_status glpcore_rows_run(uint32_t cpu, unsigned flags, void *x, glpcore_dtype dtype,
                                size_t n_rows, size_t n_embd, size_t row_stride,
                                const float *const *d, const double *scales, size_t k,
                                const glpcore_executor *executor);

static inline uint32_t glpcore_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint64_t glpcore_double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}


/* Which term of v a row takes. */
typedef enum glpcore_term {
    GLPCORE_TERM_NONE,
    GLPCORE_TERM_FINITE,  /* nothing in it, in v or in the row is NaN or infinite */
    GLPCORE_TERM_OTHER,
    GLPCORE_TERM_REFUSED
} glpcore_term;

/* What is left to decide when a factor is not finite. */
glpcore_term glpcore_term_of_infinite(const glpcore_rows *rows, const float *v);

/* The factor of v in x + factor * v. A factor of +-0 does not count. A finite one proves that the
 * dot was finite, and so every product in it: v is looked at only when the factor is not. */
static inline glpcore_term glpcore_term_of(const glpcore_rows *rows, double scale, double dot,
                                           const float *v, float *factor) {
    float a = (float)(scale * dot);
    uint32_t magnitude = glpcore_float_bits(a) & 0x7fffffff;

    *factor = -a;
    if (magnitude < 0x7f800000) {
        return magnitude != 0 ? GLPCORE_TERM_FINITE : GLPCORE_TERM_NONE;
    }
    return glpcore_term_of_infinite(rows, v);
}

#endif /* GLPCORE_PROJECT_H */
