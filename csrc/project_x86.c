#include "cpu.h"
#include "project.h"

#ifdef GLPCORE_X86

#include <immintrin.h>

#if defined(__GNUC__)
#  define INLINE inline __attribute__((always_inline))
#else
#  define INLINE __forceinline
#endif

#define PREFETCH(address) _mm_prefetch((const char *)(address), _MM_HINT_T0)

/* ---- AVX2 with FMA and F16C ----------------------------------------------------------------- */

#if defined(__clang__)
#  pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#elif defined(__GNUC__)
#  pragma GCC push_options
#  pragma GCC target("avx2,fma,f16c")
#endif

/* Lane l is element l % 4 of q[l / 4]. */
typedef struct avx2_lanes {
    __m256d q0, q1, q2, q3;
} avx2_lanes;

typedef struct avx2_block {
    __m256 low, high;
} avx2_block;

static INLINE avx2_block avx2_load_f32(const float *p) {
    avx2_block b = {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
    return b;
}

static INLINE void avx2_store_f32(float *p, avx2_block b) {
    _mm256_storeu_ps(p, b.low);
    _mm256_storeu_ps(p + 8, b.high);
}

static INLINE avx2_block avx2_load_f16(const uint16_t *p) {
    const __m128i *in = (const __m128i *)(const void *)p;
    avx2_block b = {_mm256_cvtph_ps(_mm_loadu_si128(in)), _mm256_cvtph_ps(_mm_loadu_si128(in + 1))};
    return b;
}

static INLINE void avx2_store_f16(uint16_t *p, avx2_block b) {
    __m128i *out = (__m128i *)(void *)p;
    _mm_storeu_si128(out, _mm256_cvtps_ph(b.low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(out + 1, _mm256_cvtps_ph(b.high, _MM_FROUND_TO_NEAREST_INT));
}

static INLINE __m256 avx2_lanesn_bf16(__m128i halves) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

static INLINE avx2_block avx2_load_bf16(const uint16_t *p) {
    const __m128i *in = (const __m128i *)(const void *)p;
    avx2_block b = {avx2_lanesn_bf16(_mm_loadu_si128(in)), avx2_lanesn_bf16(_mm_loadu_si128(in + 1))};
    return b;
}

/* To nearest even in the upper half of each word. */
static INLINE __m256i avx2_round_bf16(__m256i bits) {
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff));
}

/* The carry could turn a NaN into an infinity or run into the sign, so a NaN is truncated and made
 * quiet instead. */
static INLINE __m256i avx2_round_bf16_nan(__m256i bits) {
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    return _mm256_blendv_epi8(avx2_round_bf16(bits), quiet, is_nan);
}

static INLINE void avx2_store_upper(uint16_t *p, __m256i low, __m256i high) {
    __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(low, 16), _mm256_srli_epi32(high, 16));
    /* The pack works within 128-bit halves. */
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(packed, 0xd8));
}

static INLINE void avx2_store_bf16(uint16_t *p, avx2_block b) {
    avx2_store_upper(p, avx2_round_bf16_nan(_mm256_castps_si256(b.low)),
                     avx2_round_bf16_nan(_mm256_castps_si256(b.high)));
}

static INLINE void avx2_store_finite_bf16(uint16_t *p, avx2_block b) {
    avx2_store_upper(p, avx2_round_bf16(_mm256_castps_si256(b.low)),
                     avx2_round_bf16(_mm256_castps_si256(b.high)));
}

static INLINE avx2_block avx2_fma(float a, avx2_block v, avx2_block x) {
    __m256 factor = _mm256_set1_ps(a);
    avx2_block b = {_mm256_fmadd_ps(factor, v.low, x.low), _mm256_fmadd_ps(factor, v.high, x.high)};
    return b;
}

static INLINE avx2_lanes avx2_zero(void) {
    __m256d zero = _mm256_setzero_pd();
    avx2_lanes sums = {zero, zero, zero, zero};
    return sums;
}

/* From memory, four at a time: the conversion of a register's halves takes twice as long. */
static INLINE __m256d avx2_lanesn(const float *p) {
    return _mm256_cvtps_pd(_mm_loadu_ps(p));
}

static INLINE avx2_lanes avx2_add(avx2_lanes sums, const float *x, const float *v) {
    sums.q0 = _mm256_fmadd_pd(avx2_lanesn(x), avx2_lanesn(v), sums.q0);
    sums.q1 = _mm256_fmadd_pd(avx2_lanesn(x + 4), avx2_lanesn(v + 4), sums.q1);
    sums.q2 = _mm256_fmadd_pd(avx2_lanesn(x + 8), avx2_lanesn(v + 8), sums.q2);
    sums.q3 = _mm256_fmadd_pd(avx2_lanesn(x + 12), avx2_lanesn(v + 12), sums.q3);
    return sums;
}

/* A quarter of both at a time: eight sums leave few registers. */
static INLINE void avx2_add_two(avx2_lanes *c, avx2_lanes *d, const float *x, const float *y,
                                const float *v) {
    __m256d w = avx2_lanesn(v);
    c->q0 = _mm256_fmadd_pd(avx2_lanesn(x), w, c->q0);
    d->q0 = _mm256_fmadd_pd(avx2_lanesn(y), w, d->q0);
    w = avx2_lanesn(v + 4);
    c->q1 = _mm256_fmadd_pd(avx2_lanesn(x + 4), w, c->q1);
    d->q1 = _mm256_fmadd_pd(avx2_lanesn(y + 4), w, d->q1);
    w = avx2_lanesn(v + 8);
    c->q2 = _mm256_fmadd_pd(avx2_lanesn(x + 8), w, c->q2);
    d->q2 = _mm256_fmadd_pd(avx2_lanesn(y + 8), w, d->q2);
    w = avx2_lanesn(v + 12);
    c->q3 = _mm256_fmadd_pd(avx2_lanesn(x + 12), w, c->q3);
    d->q3 = _mm256_fmadd_pd(avx2_lanesn(y + 12), w, d->q3);
}

static INLINE double avx2_join(avx2_lanes sums) {
    __m256d four = _mm256_add_pd(_mm256_add_pd(sums.q0, sums.q2), _mm256_add_pd(sums.q1, sums.q3));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#define ISA(name) avx2_##name
#include "project_isa.h"
static const glpcore_kernels avx2_kernels = ISA_KERNELS;
#undef ISA

#if defined(__clang__)
#  pragma clang attribute pop
#elif defined(__GNUC__)
#  pragma GCC pop_options
#endif

/* ---- AVX-512 F ------------------------------------------------------------------------------ */

#if defined(__clang__)
#  pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#elif defined(__GNUC__)
#  pragma GCC push_options
#  pragma GCC target("avx512f")
#endif

typedef __m512 avx512_block;

/* Lane l is element l % 8 of low or high. */
typedef struct avx512_lanes {
    __m512d low, high;
} avx512_lanes;

static INLINE __m512 avx512_load_f32(const float *p) {
    return _mm512_loadu_ps(p);
}

static INLINE void avx512_store_f32(float *p, __m512 b) {
    _mm512_storeu_ps(p, b);
}

static INLINE __m512 avx512_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

static INLINE void avx512_store_f16(uint16_t *p, __m512 b) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT));
}

static INLINE __m512 avx512_load_bf16(const uint16_t *p) {
    __m256i halves = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* As avx2_round_bf16. The instruction of AVX-512 BF16 would take subnormals for zeros. */
static INLINE __m512i avx512_round_bf16(__m512i bits) {
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
}

static INLINE void avx512_store_upper(uint16_t *p, __m512i b) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(b, 16)));
}

static INLINE void avx512_store_bf16(uint16_t *p, __m512 b) {
    __m512i bits = _mm512_castps_si512(b);
    __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    __mmask16 is_nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
    __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x00400000));
    avx512_store_upper(p, _mm512_mask_mov_epi32(avx512_round_bf16(bits), is_nan, quiet));
}

static INLINE void avx512_store_finite_bf16(uint16_t *p, __m512 b) {
    avx512_store_upper(p, avx512_round_bf16(_mm512_castps_si512(b)));
}

static INLINE __m512 avx512_fma(float a, __m512 v, __m512 x) {
    return _mm512_fmadd_ps(_mm512_set1_ps(a), v, x);
}

static INLINE avx512_lanes avx512_zero(void) {
    avx512_lanes sums = {_mm512_setzero_pd(), _mm512_setzero_pd()};
    return sums;
}

static INLINE __m512d avx512_widen(const float *p) {
    return _mm512_cvtps_pd(_mm256_loadu_ps(p));
}

static INLINE avx512_lanes avx512_add(avx512_lanes sums, const float *x, const float *v) {
    sums.low = _mm512_fmadd_pd(avx512_widen(x), avx512_widen(v), sums.low);
    sums.high = _mm512_fmadd_pd(avx512_widen(x + 8), avx512_widen(v + 8), sums.high);
    return sums;
}

static INLINE void avx512_add_two(avx512_lanes *c, avx512_lanes *d, const float *x, const float *y,
                                  const float *v) {
    __m512d low = avx512_widen(v), high = avx512_widen(v + 8);
    c->low = _mm512_fmadd_pd(avx512_widen(x), low, c->low);
    d->low = _mm512_fmadd_pd(avx512_widen(y), low, d->low);
    c->high = _mm512_fmadd_pd(avx512_widen(x + 8), high, c->high);
    d->high = _mm512_fmadd_pd(avx512_widen(y + 8), high, d->high);
}

static INLINE double avx512_join(avx512_lanes sums) {
    __m512d eight = _mm512_add_pd(sums.low, sums.high);
    __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#define ISA(name) avx512_##name
#include "project_isa.h"
static const glpcore_kernels avx512_kernels = ISA_KERNELS;
#undef ISA

#if defined(__clang__)
#  pragma clang attribute pop
#elif defined(__GNUC__)
#  pragma GCC pop_options
#endif

const glpcore_kernels *glpcore_kernels_x86(uint32_t cpu) {
    if (cpu & GLPCORE_CPU_AVX512) {
        return &avx512_kernels;
    }
    if (cpu & GLPCORE_CPU_AVX2) {
        return &avx2_kernels;
    }
    return NULL;
}

#else

const glpcore_kernels *glpcore_kernels_x86(uint32_t cpu) {
    (void)cpu;
    return NULL;
}

#endif
