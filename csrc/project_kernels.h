/* The kernels of one instruction set and one dtype. No include guard: project_isa.h, which says what
 * an instruction set must bring, includes this text once per dtype, after defining
 *
 *   KERNEL(name)                      a name of its own for each function
 *   element                           the type in memory
 *   LOAD(p)                           16 elements at p, widened to a block
 *   STORE(p, b), STORE_FINITE(p, b)   a block rounded to 16 elements at p; the second may take NaN
 *                                     for anything
 *
 * A last, short block is padded with zeros: a lane starts at +0 and is never -0, so adding +-0 to it
 * leaves its bits alone. */

/* Elements of 16 bits are widened into a stage of so many float32 first: from memory, the
 * conversion to float64 costs half of what it costs from a register. */
#define STAGE 256
#define STAGED (sizeof(element) == 2)

/* The processor's own prefetching starts anew at each row, which is late where rows are short. Rows
 * of at most so many bytes are asked for by the pair, so many bytes early or more. */
#define SHORT_ROW 16384
#define AHEAD 4096

/* Directions whose dots are summed in one pass over a row. */
#define RANKS 8

/* How far ahead to ask for rows, or 0. */
static size_t KERNEL(ahead)(const glpcore_rows *rows) {
    const size_t pair = 2 * rows->row_bytes;
    return rows->n_embd * sizeof(element) <= SHORT_ROW ? pair * (1 + AHEAD / (pair + 1)) : 0;
}

static INLINE const float *KERNEL(stage)(float *stage, const element *x, size_t whole) {
    size_t i;

    if (!STAGED) {
        return (const float *)(const void *)x;
    }
    for (i = 0; i < whole; i += 16) {
        ISA(store_f32)(stage + i, LOAD(x + i));
    }
    return stage;
}

static INLINE ISA(block) KERNEL(load_tail)(const element *x, size_t n) {
    element padded[16] = {0};
    memcpy(padded, x, n * sizeof *x);
    return LOAD(padded);
}

static INLINE void KERNEL(store_tail)(element *x, size_t n, ISA(block) b) {
    element padded[16];
    STORE(padded, b);
    memcpy(x, padded, n * sizeof *x);
}

static INLINE void KERNEL(pad)(float *to, const element *x, size_t n) {
    element padded[16] = {0};
    memcpy(padded, x, n * sizeof *x);
    ISA(store_f32)(to, LOAD(padded));
}

/* One pass over up to four rows: a and b take their updates while the dots of c and d are summed,
 * so that memory brings the next rows while this processor rounds the last. `update` and `dot` are
 * the numbers of rows, constants where it is inlined. */
static INLINE void KERNEL(pass)(int update, element *a, element *b, const float *factors, int dot,
                                const element *c, const element *d, double *dots, size_t ahead,
                                const float *v, size_t n) {
    ISA(lanes) c_sums = ISA(zero)(), d_sums = ISA(zero)();
    size_t at, i;

    for (at = 0; at < n; at += STAGED ? STAGE : n) {
        size_t count = STAGED && n - at > STAGE ? STAGE : n - at;
        size_t whole = count & ~(size_t)15, rest = count - whole;
        float c_stage[STAGED ? STAGE : 1], d_stage[STAGED ? STAGE : 1];
        const float *c_wide = dot > 0 ? KERNEL(stage)(c_stage, c + at, whole) : NULL;
        const float *d_wide = dot > 1 ? KERNEL(stage)(d_stage, d + at, whole) : NULL;
        const float *w = v + at;

        for (i = 0; i < whole; i += 16) {
            if (ahead) {
                PREFETCH((uintptr_t)(c + at + i) + ahead);
                PREFETCH((uintptr_t)(d + at + i) + ahead);
            }
            if (dot == 1) {
                c_sums = ISA(add)(c_sums, c_wide + i, w + i);
            } else if (dot == 2) {
                ISA(add_two)(&c_sums, &d_sums, c_wide + i, d_wide + i, w + i);
            }
            if (update > 0) {
                ISA(block) block_v = ISA(load_f32)(w + i);
                STORE_FINITE(a + at + i, ISA(fma)(factors[0], block_v, LOAD(a + at + i)));
                if (update > 1) {
                    STORE_FINITE(b + at + i, ISA(fma)(factors[1], block_v, LOAD(b + at + i)));
                }
            }
        }
        if (rest > 0) {
            float x_tail[16], v_tail[16] = {0};

            memcpy(v_tail, w + whole, rest * sizeof *v_tail);
            if (dot > 0) {
                KERNEL(pad)(x_tail, c + at + whole, rest);
                c_sums = ISA(add)(c_sums, x_tail, v_tail);
            }
            if (dot > 1) {
                KERNEL(pad)(x_tail, d + at + whole, rest);
                d_sums = ISA(add)(d_sums, x_tail, v_tail);
            }
            if (update > 0) {
                element *x = a + at + whole;
                KERNEL(store_tail)(x, rest, ISA(fma)(factors[0], ISA(load_f32)(v_tail),
                                                      KERNEL(load_tail)(x, rest)));
            }
            if (update > 1) {
                element *x = b + at + whole;
                KERNEL(store_tail)(x, rest, ISA(fma)(factors[1], ISA(load_f32)(v_tail),
                                                      KERNEL(load_tail)(x, rest)));
            }
        }
    }
    if (dot > 0) {
        dots[0] = ISA(join)(c_sums);
    }
    if (dot > 1) {
        dots[1] = ISA(join)(d_sums);
    }
}

static void KERNEL(dot_one)(const element *c, double *dots, const float *v, size_t n) {
    KERNEL(pass)(0, NULL, NULL, NULL, 1, c, NULL, dots, 0, v, n);
}

static void KERNEL(dot_two)(const element *c, const element *d, double *dots, const float *v,
                            size_t n) {
    KERNEL(pass)(0, NULL, NULL, NULL, 2, c, d, dots, 0, v, n);
}

static void KERNEL(update_one)(element *a, const float *factors, const float *v, size_t n) {
    KERNEL(pass)(1, a, NULL, factors, 0, NULL, NULL, NULL, 0, v, n);
}

static void KERNEL(update_two)(element *a, element *b, const float *factors, const float *v,
                               size_t n) {
    KERNEL(pass)(2, a, b, factors, 0, NULL, NULL, NULL, 0, v, n);
}

static void KERNEL(update_dot_two)(element *a, element *b, const float *factors, const element *c,
                                   const element *d, double *dots, const float *v, size_t n) {
    KERNEL(pass)(2, a, b, factors, 2, c, d, dots, 0, v, n);
}

static void KERNEL(update_dot_two_ahead)(element *a, element *b, const float *factors,
                                         const element *c, const element *d, double *dots,
                                         size_t ahead, const float *v, size_t n) {
    KERNEL(pass)(2, a, b, factors, 2, c, d, dots, ahead, v, n);
}

/* x + sum of factors[j] * d[j], rounded to float32 after every j and to the dtype at the end, for
 * the elements from `done` (a multiple of 16) on. Anything may be NaN or infinite. */
static void KERNEL(update)(element *x, const float *const *d, const float *factors, size_t k,
                           size_t done, size_t n) {
    size_t i, j, whole = n & ~(size_t)15;

    for (i = done; i < whole; i += 16) {
        ISA(block) b = LOAD(x + i);
        for (j = 0; j < k; j++) {
            b = ISA(fma)(factors[j], ISA(load_f32)(d[j] + i), b);
        }
        STORE(x + i, b);
    }
    if (whole < n) {
        float tail[16] = {0};
        ISA(block) b = KERNEL(load_tail)(x + whole, n - whole);
        for (j = 0; j < k; j++) {
            memcpy(tail, d[j] + whole, (n - whole) * sizeof *tail);
            b = ISA(fma)(factors[j], ISA(load_f32)(tail), b);
        }
        KERNEL(store_tail)(x + whole, n - whole, b);
    }
}

static int KERNEL(project_one)(const glpcore_rows *rows, size_t first, size_t n_rows) {
    const float *v = rows->d[0];
    const double scale = rows->scales[0];
    const size_t n = rows->n_embd, step = rows->row_bytes;
    unsigned char *row = rows->x + first * step;
    const size_t ahead = KERNEL(ahead)(rows);
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
            if (more && ahead) {
                KERNEL(update_dot_two_ahead)(ROW(0), ROW(1), factors, ROW(2), ROW(3), dots,
                                             ahead, v, n);
            } else if (more) {
                KERNEL(update_dot_two)(ROW(0), ROW(1), factors, ROW(2), ROW(3), dots, v, n);
            } else {
                KERNEL(update_two)(ROW(0), ROW(1), factors, v, n);
            }
            continue;
        }
        for (i = 0; i < 2; i++) {
            if (terms[i] != GLPCORE_TERM_NONE) {
                KERNEL(update)(ROW(i), &v, &factors[i], 1, 0, n);
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
            KERNEL(update)(ROW(0), &v, factors, 1, 0, n);
        }
    }
    return 1;
#undef ROW
}

/* The dots of one or two rows, a constant, with k <= RANKS directions, in one pass. */
static INLINE void KERNEL(dots)(int n_rows, const element *c, const element *d, double *c_dots,
                                double *d_dots, size_t ahead, const float *const *v, size_t k,
                                size_t n) {
    ISA(lanes) c_sums[RANKS], d_sums[RANKS];
    size_t at, i, j;

    for (j = 0; j < k; j++) {
        c_sums[j] = d_sums[j] = ISA(zero)();
    }
    for (at = 0; at < n; at += STAGE) {
        size_t count = n - at > STAGE ? STAGE : n - at;
        size_t whole = count & ~(size_t)15, rest = count - whole;
        float c_stage[STAGED ? STAGE : 1], d_stage[STAGED ? STAGE : 1];
        float c_tail[16] = {0}, d_tail[16] = {0};
        const float *c_wide = KERNEL(stage)(c_stage, c + at, whole);
        const float *d_wide = n_rows > 1 ? KERNEL(stage)(d_stage, d + at, whole) : NULL;

        for (i = 0; ahead && i < whole; i += 16) {
            PREFETCH((uintptr_t)(c + at + i) + ahead);
            PREFETCH((uintptr_t)(d + at + i) + ahead);
        }
        if (rest > 0) {
            KERNEL(pad)(c_tail, c + at + whole, rest);
            if (n_rows > 1) {
                KERNEL(pad)(d_tail, d + at + whole, rest);
            }
        }
        for (j = 0; j < k; j++) {
            const float *w = v[j] + at;
            ISA(lanes) c_lanes = c_sums[j], d_lanes = d_sums[j];

            for (i = 0; i < whole; i += 16) {
                if (n_rows > 1) {
                    ISA(add_two)(&c_lanes, &d_lanes, c_wide + i, d_wide + i, w + i);
                } else {
                    c_lanes = ISA(add)(c_lanes, c_wide + i, w + i);
                }
            }
            if (rest > 0) {
                float v_tail[16] = {0};

                memcpy(v_tail, w + whole, rest * sizeof *v_tail);
                c_lanes = ISA(add)(c_lanes, c_tail, v_tail);
                if (n_rows > 1) {
                    d_lanes = ISA(add)(d_lanes, d_tail, v_tail);
                }
            }
            c_sums[j] = c_lanes;
            d_sums[j] = d_lanes;
        }
    }
    for (j = 0; j < k; j++) {
        c_dots[j] = ISA(join)(c_sums[j]);
        if (n_rows > 1) {
            d_dots[j] = ISA(join)(d_sums[j]);
        }
    }
}

static void KERNEL(dots_one)(const element *c, double *dots, const float *const *v, size_t k,
                             size_t n) {
    KERNEL(dots)(1, c, NULL, dots, NULL, 0, v, k, n);
}

static void KERNEL(dots_two)(const element *c, const element *d, double *c_dots, double *d_dots,
                             size_t ahead, const float *const *v, size_t k, size_t n) {
    KERNEL(dots)(2, c, d, c_dots, d_dots, ahead, v, k, n);
}

/* `update` for two rows that take the same terms, all of them finite, 16 elements or more. */
static void KERNEL(updates_two)(element *a, element *b, const float *const *d,
                                const float *a_factors, const float *b_factors, size_t k,
                                size_t whole) {
    size_t i, j;

    for (i = 0; i < whole; i += 16) {
        ISA(block) p = LOAD(a + i), q = LOAD(b + i);
        for (j = 0; j < k; j++) {
            ISA(block) v = ISA(load_f32)(d[j] + i);
            p = ISA(fma)(a_factors[j], v, p);
            q = ISA(fma)(b_factors[j], v, q);
        }
        STORE_FINITE(a + i, p);
        STORE_FINITE(b + i, q);
    }
}

static int KERNEL(project)(const glpcore_rows *rows, size_t first, size_t n_rows) {
    const size_t n = rows->n_embd, step = rows->row_bytes, ahead = KERNEL(ahead)(rows);
    unsigned char *row = rows->x + first * step;
    double dots[2][GLPCORE_MAX_RANK];

    if (rows->k == 1) {
        return KERNEL(project_one)(rows, first, n_rows);
    }
    while (n_rows > 0) {
        const size_t taken = n_rows >= 2 ? 2 : 1;
        element *x[2] = {(element *)(void *)row, (element *)(void *)(row + (taken - 1) * step)};
        const float *d[2][GLPCORE_MAX_RANK];
        float factors[2][GLPCORE_MAX_RANK];
        size_t k[2] = {0, 0}, done = 0, i, j;
        int all_finite = 1;

        for (j = 0; j < rows->k; j += RANKS) {
            size_t count = rows->k - j < RANKS ? rows->k - j : RANKS;
            if (taken == 2) {
                KERNEL(dots_two)(x[0], x[1], dots[0] + j, dots[1] + j, j == 0 ? ahead : 0,
                                 rows->d + j, count, n);
            } else {
                KERNEL(dots_one)(x[0], dots[0] + j, rows->d + j, count, n);
            }
        }
        for (i = 0; i < taken; i++) {
            for (j = 0; j < rows->k; j++) {
                glpcore_term term = glpcore_term_of(rows, rows->scales[j], dots[i][j], rows->d[j],
                                                    &factors[i][k[i]]);
                if (term == GLPCORE_TERM_REFUSED) {
                    return 0;
                }
                d[i][k[i]] = rows->d[j];
                k[i] += term != GLPCORE_TERM_NONE;
                all_finite &= term == GLPCORE_TERM_FINITE;
            }
        }
        if (taken == 2 && all_finite) {
            done = n & ~(size_t)15;
            KERNEL(updates_two)(x[0], x[1], d[0], factors[0], factors[1], rows->k, done);
        }
        for (i = 0; i < taken; i++) {
            if (k[i] > 0 && done < n) {
                KERNEL(update)(x[i], d[i], factors[i], k[i], done, n);
            }
        }
        n_rows -= taken;
        row += taken * step;
    }
    return 1;
}

static int KERNEL(add)(const glpcore_rows *rows, size_t first, size_t n_rows) {
    unsigned char *row = rows->x + first * rows->row_bytes;
    float factor = (float)rows->scales[0];

    for (; n_rows > 0; n_rows--, row += rows->row_bytes) {
        KERNEL(update)((element *)(void *)row, rows->d, &factor, 1, 0, rows->n_embd);
    }
    return 1;
}

#undef STAGE
#undef STAGED
#undef SHORT_ROW
#undef AHEAD
#undef RANKS
