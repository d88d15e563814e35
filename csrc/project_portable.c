/* The kernels in portable C: the executable form of docs/numerics.md, and what every processor without
 * kernels of its own runs. */
#include "project.h"

#if defined(__GNUC__)
#  define INLINE inline __attribute__((always_inline))
#else
#  define INLINE inline
#endif

/* ---- Numbers -------------------------------------------------------------------------------- */

static float portable_float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float portable_widen_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
    uint32_t fraction = half & 0x3ff;

    if (exponent == 31) {
        return portable_float_of(sign | 0x7f800000 | fraction << 13);
    }
    if (exponent == 0) {
        return portable_float_of(sign | glpcore_float_bits((float)fraction * 0x1p-24f));
    }
    return portable_float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

/* word / 2^shift to nearest even, 0 < shift < 32. */
static uint32_t portable_shift_even(uint32_t word, uint32_t shift) {
    return (word + ((1u << (shift - 1)) - 1) + (word >> shift & 1)) >> shift;
}

static uint16_t portable_narrow_f16(float value) {
    uint32_t bits = glpcore_float_bits(value), magnitude = bits & 0x7fffffff, half;

    if (magnitude > 0x7f800000) {
        half = 0x7e00 | (magnitude >> 13 & 0x3ff);
    } else if (magnitude >= 0x477ff000) { /* 65520, half way from 65504 to the next */
        half = 0x7c00;
    } else if (magnitude >= 0x38800000) { /* 2^-14, the smallest normal */
        half = portable_shift_even(magnitude - (112u << 23), 13);
    } else if (magnitude >= 0x33000000) { /* 2^-25, half the smallest subnormal */
        half = portable_shift_even((magnitude & 0x7fffff) | 0x800000, 126 - (magnitude >> 23));
    } else {
        half = 0;
    }
    return (uint16_t)((bits >> 16 & 0x8000) | half);
}

static uint16_t portable_narrow_bf16(float value) {
    uint32_t bits = glpcore_float_bits(value);

    /* The carry of the rounding would turn some NaN into infinities. */
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    return (uint16_t)portable_shift_even(bits, 16);
}

/* a * b + c with one rounding. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__FP_FAST_FMAF)
static INLINE float portable_fma_one(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
#else
/* libm's fmaf may be a plain float64 expression, which rounds twice. Here the product is exact in
 * float64 and the sum is rounded to odd: where it is inexact its last bit is set, so that the
 * second rounding, 29 bits higher, sees on which side of a tie the exact value lies. */
static INLINE float portable_fma_one(float a, float b, float c) {
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

/* ---- Sixteen at a time ---------------------------------------------------------------------- */

typedef struct portable_block {
    float e[16];
} portable_block;

typedef struct portable_lanes {
    double sum[16];
} portable_lanes;

static INLINE portable_block portable_load_f32(const float *p) {
    portable_block b;
    memcpy(b.e, p, sizeof b.e);
    return b;
}

static INLINE void portable_store_f32(float *p, portable_block b) {
    memcpy(p, b.e, sizeof b.e);
}

static INLINE portable_block portable_load_f16(const uint16_t *p) {
    portable_block b;
    size_t i;

    for (i = 0; i < 16; i++) {
        b.e[i] = portable_widen_f16(p[i]);
    }
    return b;
}

static INLINE void portable_store_f16(uint16_t *p, portable_block b) {
    size_t i;

    for (i = 0; i < 16; i++) {
        p[i] = portable_narrow_f16(b.e[i]);
    }
}

static INLINE portable_block portable_load_bf16(const uint16_t *p) {
    portable_block b;
    size_t i;

    for (i = 0; i < 16; i++) {
        b.e[i] = portable_float_of((uint32_t)p[i] << 16);
    }
    return b;
}

static INLINE void portable_store_bf16(uint16_t *p, portable_block b) {
    size_t i;

    for (i = 0; i < 16; i++) {
        p[i] = portable_narrow_bf16(b.e[i]);
    }
}

#define portable_store_finite_bf16 portable_store_bf16

static INLINE portable_block portable_fma(float a, portable_block v, portable_block x) {
    size_t i;

    for (i = 0; i < 16; i++) {
        x.e[i] = portable_fma_one(a, v.e[i], x.e[i]);
    }
    return x;
}

static INLINE portable_lanes portable_zero(void) {
    portable_lanes sums = {{0}};
    return sums;
}

static INLINE portable_lanes portable_add(portable_lanes sums, const float *x, const float *v) {
    size_t lane;

    for (lane = 0; lane < 16; lane++) {
        sums.sum[lane] += (double)x[lane] * (double)v[lane];
    }
    return sums;
}

static INLINE void portable_add_two(portable_lanes *c, portable_lanes *d, const float *x,
                                    const float *y, const float *v) {
    *c = portable_add(*c, x, v);
    *d = portable_add(*d, y, v);
}

static INLINE double portable_join(portable_lanes sums) {
    size_t lane, width;

    for (width = 8; width > 0; width /= 2) {
        for (lane = 0; lane < width; lane++) {
            sums.sum[lane] += sums.sum[lane + width];
        }
    }
    return sums.sum[0];
}

#define ISA(name) portable_##name
#define PREFETCH(address) ((void)(address))
#include "project_isa.h"

const glpcore_kernels glpcore_kernels_portable = ISA_KERNELS;
