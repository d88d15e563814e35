#include "cpu.h"

#ifdef GLPCORE_X86

#if defined(_MSC_VER)
#  include <immintrin.h>
#  include <intrin.h>
#else
#  include <cpuid.h>
#endif

static void cpu_id(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
#if defined(_MSC_VER)
    int registers[4];
    int i;
    __cpuidex(registers, (int)leaf, (int)subleaf);
    for (i = 0; i < 4; i++) {
        out[i] = (uint32_t)registers[i];
    }
#else
    __cpuid_count(leaf, subleaf, out[0], out[1], out[2], out[3]);
#endif
}

static uint64_t cpu_xgetbv(void) {
#if defined(_MSC_VER)
    return _xgetbv(0);
#else
    /* Spelled out: the intrinsic would need -mxsave, and old assemblers lack the name. */
    uint32_t low, high;
    __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
#endif
}

static int cpu_has(uint32_t word, uint32_t bits) {
    return (word & bits) == bits;
}

static uint32_t cpu_detect(void) {
    const uint32_t ssse3 = 1u << 9, fma = 1u << 12, sse41 = 1u << 19, osxsave = 1u << 27,
                   avx = 1u << 28, f16c = 1u << 29;
    const uint32_t avx2 = 1u << 5, avx512f = 1u << 16, sha = 1u << 29;
    uint32_t leaf0[4], leaf1[4], leaf7[4] = {0};
    uint32_t mask = 0;
    uint64_t kept = 0;

#if defined(__i386__) && defined(__GNUC__)
    if (!__get_cpuid_max(0, 0)) {
        return 0;
    }
#endif
    cpu_id(0, 0, leaf0);
    if (leaf0[0] < 1) {
        return 0;
    }
    cpu_id(1, 0, leaf1);
    if (leaf0[0] >= 7) {
        cpu_id(7, 0, leaf7);
    }
    if (cpu_has(leaf1[2], osxsave)) {
        kept = cpu_xgetbv();
    }
    if (cpu_has(leaf1[2], ssse3 | sse41) && cpu_has(leaf7[1], sha)) {
        mask |= GLPCORE_CPU_SHA;
    }
    if ((kept & 0x06) == 0x06 && cpu_has(leaf1[2], avx | fma | f16c) && cpu_has(leaf7[1], avx2)) {
        mask |= GLPCORE_CPU_AVX2;
    }
    if ((mask & GLPCORE_CPU_AVX2) && (kept & 0xe6) == 0xe6 && cpu_has(leaf7[1], avx512f)) {
        mask |= GLPCORE_CPU_AVX512;
    }
    return mask;
}

#elif defined(GLPCORE_ARM64)

static uint32_t cpu_detect(void) {
    return GLPCORE_CPU_NEON;
}

#else

static uint32_t cpu_detect(void) {
    return 0;
}

#endif

/* The one mutable object of the library. CPUID traps inside a virtual machine: 15 us were measured
 * for the leaves above, a hundred short calls' worth, so the answer is kept. Every thread that
 * finds it missing computes the same value and stores it whole, which is why relaxed accesses are
 * enough and no constructor, initialiser or lock is needed. */
#define CPU_KNOWN 0x80000000u

#if defined(__GNUC__)
static uint32_t cpu_cache;
#  define CPU_CACHE_LOAD() __atomic_load_n(&cpu_cache, __ATOMIC_RELAXED)
#  define CPU_CACHE_STORE(value) __atomic_store_n(&cpu_cache, (value), __ATOMIC_RELAXED)
#else
static volatile uint32_t cpu_cache;
#  define CPU_CACHE_LOAD() (cpu_cache)
#  define CPU_CACHE_STORE(value) (cpu_cache = (value))
#endif

uint32_t glpcore_cpu(void) {
    uint32_t mask = CPU_CACHE_LOAD();
    if (!(mask & CPU_KNOWN)) {
        mask = cpu_detect() | CPU_KNOWN;
        CPU_CACHE_STORE(mask);
    }
    return mask & ~CPU_KNOWN;
}
