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

#define block avx2_block
#define lanes avx2_lanes
#define block_load avx2_load_f32
#define block_fma avx2_fma
#define lanes_zero avx2_zero
#define wide_load avx2_lanesn
#define lanes_add avx2_add
#define lanes_add_two avx2_add_two
#define lanes_join avx2_join
#define WIDEN(to, p) avx2_store_f32(to, LOAD(p))

#define element float
#define KERNEL(name) avx2_##name##_f32_rows
#define LOAD avx2_load_f32
#define STORE avx2_store_f32
#define STORE_FINITE avx2_store_f32
#include "project_kernels.h"
#undef element
#undef KERNEL
#undef LOAD
#undef STORE
#undef STORE_FINITE

#define element uint16_t
#define KERNEL(name) avx2_##name##_f16_rows
#define LOAD avx2_load_f16
#define STORE avx2_store_f16
#define STORE_FINITE avx2_store_f16
#include "project_kernels.h"
#undef KERNEL
#undef LOAD
#undef STORE
#undef STORE_FINITE

#define KERNEL(name) avx2_##name##_bf16_rows
#define LOAD avx2_load_bf16
#define STORE avx2_store_bf16
#define STORE_FINITE avx2_store_finite_bf16
#include "project_kernels.h"
#undef element
#undef KERNEL
#undef LOAD
#undef STORE
#undef STORE_FINITE

#undef block
#undef lanes
#undef block_load
#undef block_fma
#undef lanes_zero
#undef lanes_add
#undef lanes_add_two
#undef lanes_join
#undef WIDEN

#if defined(__clang__)
#  pragma clang attribute pop
#elif defined(__GNUC__)
#  pragma GCC pop_options
#endif

static const glpcore_kernels avx2_kernels = {
    {avx2_project_f32_rows, avx2_project_f16_rows, avx2_project_bf16_rows},
    {avx2_add_f32_rows, avx2_add_f16_rows, avx2_add_bf16_rows}};

const glpcore_kernels *glpcore_kernels_x86(uint32_t cpu) {
    if (cpu & GLPCORE_CPU_AVX2) {
        return &avx2_kernels;
    }
    return NULL;
}

#else

/* ISO C wants at least one declaration in a file. */
typedef int glpcore_no_x86;

#endif
