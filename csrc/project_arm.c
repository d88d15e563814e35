#include "cpu.h"
#include "project.h"

#ifdef GLPCORE_ARM64

#include <arm_neon.h>

#if defined(__GNUC__)
#  define INLINE inline __attribute__((always_inline))
#  define PREFETCH(address) __builtin_prefetch((const void *)(address))
#else
#  define INLINE __forceinline
#  define PREFETCH(address) __prefetch((const void *)(address))
#endif

/* ---- Advanced SIMD -------------------------------------------------------------------------- */

typedef struct neon_block {
    float32x4_t q[4];
} neon_block;

/* Lane l is element l % 2 of q[l / 2]. */
typedef struct neon_lanes {
    float64x2_t q[8];
} neon_lanes;

static INLINE neon_block neon_load_f32(const float *p) {
    neon_block b = {{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
    return b;
}

static INLINE void neon_store_f32(float *p, neon_block b) {
    int i;

    for (i = 0; i < 4; i++) {
        vst1q_f32(p + 4 * i, b.q[i]);
    }
}

static INLINE neon_block neon_load_f16(const uint16_t *p) {
    neon_block b;
    int i;

    for (i = 0; i < 4; i++) {
        b.q[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)));
    }
    return b;
}

static INLINE void neon_store_f16(uint16_t *p, neon_block b) {
    int i;

    for (i = 0; i < 4; i++) {
        vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(b.q[i])));
    }
}

static INLINE neon_block neon_load_bf16(const uint16_t *p) {
    neon_block b;
    int i;

    for (i = 0; i < 4; i++) {
        b.q[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16));
    }
    return b;
}

/* To nearest even in the upper half of each word. */
static INLINE uint32x4_t neon_round_bf16(uint32x4_t bits) {
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vaddq_u32(vaddq_u32(bits, odd), vdupq_n_u32(0x7fff));
}

/* The carry could turn a NaN into an infinity or run into the sign, so a NaN is truncated and made
 * quiet instead. */
static INLINE void neon_store_bf16(uint16_t *p, neon_block b) {
    int i;

    for (i = 0; i < 4; i++) {
        uint32x4_t bits = vreinterpretq_u32_f32(b.q[i]);
        uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x00400000));
        uint32x4_t magnitude = vandq_u32(bits, vdupq_n_u32(0x7fffffff));
        uint32x4_t is_nan = vcgtq_u32(magnitude, vdupq_n_u32(0x7f800000));
        vst1_u16(p + 4 * i, vshrn_n_u32(vbslq_u32(is_nan, quiet, neon_round_bf16(bits)), 16));
    }
}

static INLINE void neon_store_finite_bf16(uint16_t *p, neon_block b) {
    int i;

    for (i = 0; i < 4; i++) {
        vst1_u16(p + 4 * i, vshrn_n_u32(neon_round_bf16(vreinterpretq_u32_f32(b.q[i])), 16));
    }
}

static INLINE neon_block neon_fma(float a, neon_block v, neon_block x) {
    float32x4_t factor = vdupq_n_f32(a);
    int i;

    for (i = 0; i < 4; i++) {
        x.q[i] = vfmaq_f32(x.q[i], factor, v.q[i]);
    }
    return x;
}

static INLINE neon_lanes neon_zero(void) {
    neon_lanes sums;
    int i;

    for (i = 0; i < 8; i++) {
        sums.q[i] = vdupq_n_f64(0);
    }
    return sums;
}

static INLINE neon_lanes neon_add(neon_lanes sums, const float *x, const float *v) {
    int i;

    for (i = 0; i < 4; i++) {
        float32x4_t p = vld1q_f32(x + 4 * i), w = vld1q_f32(v + 4 * i);
        sums.q[2 * i] = vfmaq_f64(sums.q[2 * i], vcvt_f64_f32(vget_low_f32(p)),
                                  vcvt_f64_f32(vget_low_f32(w)));
        sums.q[2 * i + 1] = vfmaq_f64(sums.q[2 * i + 1], vcvt_high_f64_f32(p),
                                      vcvt_high_f64_f32(w));
    }
    return sums;
}

static INLINE void neon_add_two(neon_lanes *c, neon_lanes *d, const float *x, const float *y,
                                const float *v) {
    int i;

    for (i = 0; i < 4; i++) {
        float32x4_t p = vld1q_f32(x + 4 * i), q = vld1q_f32(y + 4 * i), w = vld1q_f32(v + 4 * i);
        float64x2_t low = vcvt_f64_f32(vget_low_f32(w)), high = vcvt_high_f64_f32(w);
        c->q[2 * i] = vfmaq_f64(c->q[2 * i], vcvt_f64_f32(vget_low_f32(p)), low);
        d->q[2 * i] = vfmaq_f64(d->q[2 * i], vcvt_f64_f32(vget_low_f32(q)), low);
        c->q[2 * i + 1] = vfmaq_f64(c->q[2 * i + 1], vcvt_high_f64_f32(p), high);
        d->q[2 * i + 1] = vfmaq_f64(d->q[2 * i + 1], vcvt_high_f64_f32(q), high);
    }
}

static INLINE double neon_join(neon_lanes sums) {
    int i, width;

    for (width = 4; width > 0; width /= 2) {
        for (i = 0; i < width; i++) {
            sums.q[i] = vaddq_f64(sums.q[i], sums.q[i + width]);
        }
    }
    return vgetq_lane_f64(sums.q[0], 0) + vgetq_lane_f64(sums.q[0], 1);
}

#define ISA(name) neon_##name
#include "project_isa.h"
static const glpcore_kernels neon_kernels = ISA_KERNELS;

const glpcore_kernels *glpcore_kernels_arm(uint32_t cpu) {
    return cpu & GLPCORE_CPU_NEON ? &neon_kernels : NULL;
}

#else

const glpcore_kernels *glpcore_kernels_arm(uint32_t cpu) {
    (void)cpu;
    return NULL;
}

#endif
