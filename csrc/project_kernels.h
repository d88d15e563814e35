/* The kernels of one instruction set and one dtype. No include guard: project_<isa>.c includes this
 * text once per pair, after defining
 *
 *   KERNEL(name)             a name of its own for each function
 *   element                  the type in memory
 *   LOAD(p), STORE(p, b)     16 elements at p, widened to or rounded from a block of float32
 *   block, lanes             16 float32; the 16 partial sums in float64
 *   block_load(v)            16 float32 at v
 *   block_fma(a, v, x)       a * v + x with one rounding, a one float32
 *   lanes_zero(), lanes_add(sums, x, v), lanes_join(sums)
 *
 * docs/numerics.md states the order of summation. A last, short block is padded with zeros: a lane
 * starts at +0 and is never -0, so adding +-0 to it leaves its bits alone. */

static INLINE lanes KERNEL(dot_tail)(lanes sums, const element *x, const float *v, size_t n) {
    element x_tail[16] = {0};
    float v_tail[16] = {0};

    memcpy(x_tail, x, n * sizeof *x);
    memcpy(v_tail, v, n * sizeof *v);
    return lanes_add(sums, LOAD(x_tail), block_load(v_tail));
}

static double KERNEL(dot)(const element *x, const float *v, size_t n) {
    lanes sums = lanes_zero();
    size_t i, whole = n & ~(size_t)15;

    for (i = 0; i < whole; i += 16) {
        sums = lanes_add(sums, LOAD(x + i), block_load(v + i));
    }
    if (whole < n) {
        sums = KERNEL(dot_tail)(sums, x + whole, v + whole, n - whole);
    }
    return lanes_join(sums);
}

/* Two rows at once: v is widened to float64 for both, and twice the sums hide the fma's latency. */
static void KERNEL(dot_pair)(const element *x, const element *y, const float *v, size_t n,
                             double dots[2]) {
    lanes x_sums = lanes_zero(), y_sums = lanes_zero();
    size_t i, whole = n & ~(size_t)15;

    for (i = 0; i < whole; i += 16) {
        block b = block_load(v + i);
        x_sums = lanes_add(x_sums, LOAD(x + i), b);
        y_sums = lanes_add(y_sums, LOAD(y + i), b);
    }
    if (whole < n) {
        x_sums = KERNEL(dot_tail)(x_sums, x + whole, v + whole, n - whole);
        y_sums = KERNEL(dot_tail)(y_sums, y + whole, v + whole, n - whole);
    }
    dots[0] = lanes_join(x_sums);
    dots[1] = lanes_join(y_sums);
}

/* x + sum of factors[j] * d[j], rounded to float32 after every j and to the dtype at the end.
 * Inlined, so that a constant k = 1 leaves no inner loop. */
static INLINE void KERNEL(update)(element *x, const float *const *d, const float *factors,
                                  size_t k, size_t n) {
    size_t i, j, whole = n & ~(size_t)15;

    for (i = 0; i < whole; i += 16) {
        block b = LOAD(x + i);
        for (j = 0; j < k; j++) {
            b = block_fma(factors[j], block_load(d[j] + i), b);
        }
        STORE(x + i, b);
    }
    if (whole < n) {
        element x_tail[16] = {0};
        float v_tail[16] = {0};
        block b;

        memcpy(x_tail, x + whole, (n - whole) * sizeof *x);
        b = LOAD(x_tail);
        for (j = 0; j < k; j++) {
            memcpy(v_tail, d[j] + whole, (n - whole) * sizeof *v_tail);
            b = block_fma(factors[j], block_load(v_tail), b);
        }
        STORE(x_tail, b);
        memcpy(x + whole, x_tail, (n - whole) * sizeof *x);
    }
}

static void KERNEL(update_one)(element *x, const float *v, float factor, size_t n) {
    KERNEL(update)(x, &v, &factor, 1, n);
}

static void KERNEL(project_one)(const glpcore_rows *rows, size_t first, size_t n_rows) {
    const float *v = rows->d[0];
    const double scale = rows->scales[0];
    const size_t n = rows->n_embd;
    unsigned char *row = rows->x + first * rows->row_bytes;
    float factor;

    for (; n_rows >= 2; n_rows -= 2, row += 2 * rows->row_bytes) {
        element *x = (element *)(void *)row, *y = (element *)(void *)(row + rows->row_bytes);
        double dots[2];

        KERNEL(dot_pair)(x, y, v, n, dots);
        if (glpcore_factor(scale, dots[0], v, n, &factor)) {
            KERNEL(update_one)(x, v, factor, n);
        }
        if (glpcore_factor(scale, dots[1], v, n, &factor)) {
            KERNEL(update_one)(y, v, factor, n);
        }
    }
    if (n_rows > 0) {
        element *x = (element *)(void *)row;
        if (glpcore_factor(scale, KERNEL(dot)(x, v, n), v, n, &factor)) {
            KERNEL(update_one)(x, v, factor, n);
        }
    }
}

static void KERNEL(project)(const glpcore_rows *rows, size_t first, size_t n_rows) {
    const size_t n = rows->n_embd;
    unsigned char *row = rows->x + first * rows->row_bytes;
    const float *d[GLPCORE_MAX_RANK];
    float factors[GLPCORE_MAX_RANK];

    if (rows->k == 1) {
        KERNEL(project_one)(rows, first, n_rows);
        return;
    }
    for (; n_rows > 0; n_rows--, row += rows->row_bytes) {
        element *x = (element *)(void *)row;
        size_t j, k = 0;

        for (j = 0; j < rows->k; j++) {
            d[k] = rows->d[j];
            k += (size_t)glpcore_factor(rows->scales[j], KERNEL(dot)(x, d[k], n), d[k], n,
                                        &factors[k]);
        }
        if (k > 0) {
            KERNEL(update)(x, d, factors, k, n);
        }
    }
}

static void KERNEL(add)(const glpcore_rows *rows, size_t first, size_t n_rows) {
    unsigned char *row = rows->x + first * rows->row_bytes;

    for (; n_rows > 0; n_rows--, row += rows->row_bytes) {
        KERNEL(update_one)((element *)(void *)row, rows->d[0], (float)rows->scales[0],
                           rows->n_embd);
    }
}
