/* What the rows of glpcore are measured against, as a host would write and build it. Compiled by
 * bench/contenders.py with -O3 -march=native; PLAIN_LOOP alone with -ffast-math as well. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef PLAIN_LOOP

/* A runtime's own loop: float32 dot, then the update, row by row. */
void plain_loop(float *x, const float *v, size_t n_rows, size_t n, float scale) {
    size_t row, i;

    for (row = 0; row < n_rows; row++, x += n) {
        float dot = 0;
        for (i = 0; i < n; i++) {
            dot += x[i] * v[i];
        }
        dot *= scale;
        for (i = 0; i < n; i++) {
            x[i] -= dot * v[i];
        }
    }
}

#else

void scale_f32(float *x, size_t n, float a) {
    size_t i;

    for (i = 0; i < n; i++) {
        x[i] *= a;
    }
}

void scale_bf16(uint16_t *x, size_t n, float a) {
    size_t i;

    for (i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)x[i] << 16;
        float value;
        memcpy(&value, &bits, 4);
        value *= a;
        memcpy(&bits, &value, 4);
        x[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

#if defined(__F16C__)
#include <immintrin.h>
void scale_f16(uint16_t *x, size_t n, float a) {
    size_t i;

    for (i = 0; i + 8 <= n; i += 8) {
        __m128i *at = (__m128i *)(void *)(x + i);
        __m256 value = _mm256_mul_ps(_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_set1_ps(a));
        _mm_storeu_si128(at, _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
    }
}
#elif defined(__aarch64__)
void scale_f16(__fp16 *x, size_t n, float a) {
    size_t i;

    for (i = 0; i < n; i++) {
        x[i] = (__fp16)((float)x[i] * a);
    }
}
#endif

/* A pass that only reads. */
float read_f32(const float *x, size_t n) {
    float sums[64] = {0}, sum = 0;
    size_t i, lane;

    for (i = 0; i + 64 <= n; i += 64) {
        for (lane = 0; lane < 64; lane++) {
            sums[lane] += x[i + lane];
        }
    }
    for (lane = 0; lane < 64; lane++) {
        sum += sums[lane];
    }
    return sum;
}

#endif
