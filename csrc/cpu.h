/* What this processor has, as a bit mask.
 *
 * Everything that chooses between instruction sets takes such a mask as an argument, so that a test
 * can run every path that the machine allows: 0 is the portable C of this library.
 */
#ifndef GLPCORE_CPU_H
#define GLPCORE_CPU_H

#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)
#  define GLPCORE_X86 1
#elif defined(__aarch64__) || defined(_M_ARM64)
#  define GLPCORE_ARM64 1
#endif

/* Each bit promises that the operating system keeps the registers too. */
#define GLPCORE_CPU_AVX2 1u   /* AVX2, FMA and F16C together: the kernels use all three   */
#define GLPCORE_CPU_AVX512 2u /* AVX-512 F and the AVX2 bit                               */
#define GLPCORE_CPU_SHA 4u    /* SHA-NI with SSSE3 and SSE4.1                             */
#define GLPCORE_CPU_NEON 8u   /* Advanced SIMD with float64, which 64-bit Arm always has  */

/* Compiles one function for an instruction set that the rest of the file may not use. */
#if defined(__GNUC__)
#  define GLPCORE_TARGET(features) __attribute__((target(features)))
#else
#  define GLPCORE_TARGET(features)
#endif

/* The mask of this processor; a few instructions after the first call in a process. */
uint32_t glpcore_cpu(void);

#endif /* GLPCORE_CPU_H */
