/* The kernels of one instruction set and one dtype. No include guard: project_<isa>.c includes this
 * text once per pair, after defining
 *
 *   KERNEL(name)                      a name of its own for each function
 *   element                           the type in memory
 *   WIDEN(to, p)                      16 elements at p as float32, stored at `to`
 *   LOAD(p)                           the same as a block
 *   STORE(p, b), STORE_FINITE(p, b)   a block rounded to 16 elements at p; the second may take NaN
 *                                     for anything
 *   block                             16 float32
 *   block_load(v), block_fma(a, v, x) 16 float32 at v; a * v + x with one rounding, a one float32
 *   lanes, wide                       the 16 partial sums; 16 float64
 *   lanes_zero(), wide_load(p)        p: 16 float32
 *   lanes_add(sums, p, w)             sums + w * the 16 float32 at p
 *   lanes_join(sums)                  by the tree of docs/numerics.md
 *   PREFETCH(p)                       asks for the cache line at p; p may lie anywhere
 *
 * A last, short block is padded with zeros: a lane starts at +0 and is never -0, so adding +-0 to it
 * leaves its bits alone. */

/* Elements of 16 bits are widened into a stage of so many float32 first: from memory, the
 * conversion to float64 costs half of what it costs from a register. */
#define STAGE 256
#define STAGED (sizeof(element) == 2)

static INLINE const float *KERNEL(stage)(float *stage, const element *x, size_t whole) {
    size_t i;

    if (!STAGED) {
        return (const float *)(const void *)x;
    }
    for (i = 0; i < whole; i += 16) {
        WIDEN(stage + i, x + i);
    }
    return stage;
}

static INLINE block KERNEL(load_tail)(const element *x, size_t n) {
    element padded[16] = {0};
    memcpy(padded, x, n * sizeof *x);
    return LOAD(padded);
}

static INLINE void KERNEL(store_tail)(element *x, size_t n, block b) {
    element padded[16];
    STORE(padded, b);
    memcpy(x, padded, n * sizeof *x);
}

static INLINE void KERNEL(pad)(float *to, const element *x, size_t n) {
    element padded[16] = {0};
    memcpy(padded, x, n * sizeof *x);
    WIDEN(to, padded);
}

/* One pass over up to four rows: a and b take their updates while the dots of c and d are summed,
 * so that memory brings the next rows while this processor rounds the last. `update` and `dot` are
 * the numbers of rows, constants where it is inlined. */
static INLINE void KERNEL(pass)(int update, element *a, element *b, const float *factors, int dot,
                                const element *c, const element *d, double *dots, const float *v,
                                size_t n) {
    lanes c_sums = lanes_zero(), d_sums = lanes_zero();
    size_t at, i;

    for (at = 0; at < n; at += STAGED ? STAGE : n) {
        size_t count = STAGED && n - at > STAGE ? STAGE : n - at;
        size_t whole = count & ~(size_t)15, rest = count - whole;
        float c_stage[STAGED ? STAGE : 1], d_stage[STAGED ? STAGE : 1];
        const float *c_wide = dot > 0 ? KERNEL(stage)(c_stage, c + at, whole) : NULL;
        const float *d_wide = dot > 1 ? KERNEL(stage)(d_stage, d + at, whole) : NULL;
        const float *w = v + at;

        for (i = 0; i < whole; i += 16) {
            if (dot > 0) {
                wide wide_v = wide_load(w + i);
                c_sums = lanes_add(c_sums, c_wide + i, wide_v);
                if (dot > 1) {
                    d_sums = lanes_add(d_sums, d_wide + i, wide_v);
                }
            }
            if (update > 0) {
                block block_v = block_load(w + i);
                STORE_FINITE(a + at + i, block_fma(factors[0], block_v, LOAD(a + at + i)));
                if (update > 1) {
                    STORE_FINITE(b + at + i, block_fma(factors[1], block_v, LOAD(b + at + i)));
                }
            }
        }
        if (rest > 0) {
            float x_tail[16], v_tail[16] = {0};

            memcpy(v_tail, w + whole, rest * sizeof *v_tail);
            if (dot > 0) {
                KERNEL(pad)(x_tail, c + at + whole, rest);
                c_sums = lanes_add(c_sums, x_tail, wide_load(v_tail));
            }
            if (dot > 1) {
                KERNEL(pad)(x_tail, d + at + whole, rest);
                d_sums = lanes_add(d_sums, x_tail, wide_load(v_tail));
            }
            if (update > 0) {
                element *x = a + at + whole;
                KERNEL(store_tail)(x, rest, block_fma(factors[0], block_load(v_tail),
                                                      KERNEL(load_tail)(x, rest)));
            }
            if (update > 1) {
                element *x = b + at + whole;
                KERNEL(store_tail)(x, rest, block_fma(factors[1], block_load(v_tail),
                                                      KERNEL(load_tail)(x, rest)));
            }
        }
    }
    if (dot > 0) {
        dots[0] = lanes_join(c_sums);
    }
    if (dot > 1) {
        dots[1] = lanes_join(d_sums);
    }
}

static void KERNEL(dot_one)(const element *c, double *dots, const float *v, size_t n) {
    KERNEL(pass)(0, NULL, NULL, NULL, 1, c, NULL, dots, v, n);
}

static void KERNEL(dot_two)(const element *c, const element *d, double *dots, const float *v,
                            size_t n) {
    KERNEL(pass)(0, NULL, NULL, NULL, 2, c, d, dots, v, n);
}

static void KERNEL(update_one)(element *a, const float *factors, const float *v, size_t n) {
    KERNEL(pass)(1, a, NULL, factors, 0, NULL, NULL, NULL, v, n);
}

static void KERNEL(update_two)(element *a, element *b, const float *factors, const float *v,
                               size_t n) {
    KERNEL(pass)(2, a, b, factors, 0, NULL, NULL, NULL, v, n);
}

static void KERNEL(update_dot_two)(element *a, element *b, const float *factors, const element *c,
                                   const element *d, double *dots, const float *v, size_t n) {
    KERNEL(pass)(2, a, b, factors, 2, c, d, dots, v, n);
}

/* x + sum of factors[j] * d[j], rounded to float32 after every j and to the dtype at the end.
 * Anything may be NaN or infinite. */
static void KERNEL(update)(element *x, const float *const *d, const float *factors, size_t k,
                           size_t n) {
    size_t i, j, whole = n & ~(size_t)15;

    for (i = 0; i < whole; i += 16) {
        block b = LOAD(x + i);
        for (j = 0; j < k; j++) {
            b = block_fma(factors[j], block_load(d[j] + i), b);
        }
        STORE(x + i, b);
    }
    if (whole < n) {
        float tail[16] = {0};
        block b = KERNEL(load_tail)(x + whole, n - whole);
        for (j = 0; j < k; j++) {
            memcpy(tail, d[j] + whole, (n - whole) * sizeof *tail);
            b = block_fma(factors[j], block_load(tail), b);
        }
        KERNEL(store_tail)(x + whole, n - whole, b);
    }
}

static int KERNEL(project_one)(const glpcore_rows *rows, size_t first, size_t n_rows) {
    const float *v = rows->d[0];
    const double scale = rows->scales[0];
    const size_t n = rows->n_embd, step = rows->row_bytes;
    unsigned char *row = rows->x + first * step;
    double dots[2];
    float factors[2];
    glpcore_term terms[2];

#define ROW(index) ((element *)(void *)(row + (index) * step))
    if (n_rows >= 2) {
        KERNEL(dot_two)(ROW(0), ROW(1), dots, v, n);
    }
    for (; n_rows >= 2; n_rows -= 2, row += 2 * step) {
        const int more = n_rows >= 4;
        int i;

        terms[0] = glpcore_term_of(rows, scale, dots[0], v, &factors[0]);
        terms[1] = glpcore_term_of(rows, scale, dots[1], v, &factors[1]);
        if (terms[0] == GLPCORE_TERM_REFUSED || terms[1] == GLPCORE_TERM_REFUSED) {
            return 0;
        }
        if (terms[0] == GLPCORE_TERM_FINITE && terms[1] == GLPCORE_TERM_FINITE) {
            if (more) {
                KERNEL(update_dot_two)(ROW(0), ROW(1), factors, ROW(2), ROW(3), dots, v, n);
            } else {
                KERNEL(update_two)(ROW(0), ROW(1), factors, v, n);
            }
            continue;
        }
        for (i = 0; i < 2; i++) {
            if (terms[i] != GLPCORE_TERM_NONE) {
                KERNEL(update)(ROW(i), &v, &factors[i], 1, n);
            }
        }
        if (more) {
            KERNEL(dot_two)(ROW(2), ROW(3), dots, v, n);
        }
    }
    if (n_rows > 0) {
        KERNEL(dot_one)(ROW(0), dots, v, n);
        terms[0] = glpcore_term_of(rows, scale, dots[0], v, factors);
        if (terms[0] == GLPCORE_TERM_REFUSED) {
            return 0;
        }
        if (terms[0] == GLPCORE_TERM_FINITE) {
            KERNEL(update_one)(ROW(0), factors, v, n);
        } else if (terms[0] != GLPCORE_TERM_NONE) {
            KERNEL(update)(ROW(0), &v, factors, 1, n);
        }
    }
    return 1;
#undef ROW
}

static int KERNEL(project)(const glpcore_rows *rows, size_t first, size_t n_rows) {
    const size_t n = rows->n_embd;
    unsigned char *row = rows->x + first * rows->row_bytes;
    const float *d[GLPCORE_MAX_RANK];
    float factors[GLPCORE_MAX_RANK];

    if (rows->k == 1) {
        return KERNEL(project_one)(rows, first, n_rows);
    }
    for (; n_rows > 0; n_rows--, row += rows->row_bytes) {
        element *x = (element *)(void *)row;
        size_t j, k = 0;

        for (j = 0; j < rows->k; j++) {
            double dot;
            glpcore_term term;

            d[k] = rows->d[j];
            KERNEL(dot_one)(x, &dot, d[k], n);
            term = glpcore_term_of(rows, rows->scales[j], dot, d[k], &factors[k]);
            if (term == GLPCORE_TERM_REFUSED) {
                return 0;
            }
            k += term != GLPCORE_TERM_NONE;
        }
        if (k > 0) {
            KERNEL(update)(x, d, factors, k, n);
        }
    }
    return 1;
}

static int KERNEL(add)(const glpcore_rows *rows, size_t first, size_t n_rows) {
    unsigned char *row = rows->x + first * rows->row_bytes;
    float factor = (float)rows->scales[0];

    for (; n_rows > 0; n_rows--, row += rows->row_bytes) {
        KERNEL(update)((element *)(void *)row, rows->d, &factor, 1, rows->n_embd);
    }
    return 1;
}

#undef STAGE
#undef STAGED
