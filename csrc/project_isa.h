/* All kernels of one instruction set. No include guard: a file includes this text once per set, after
 * defining PREFETCH(address), ISA(name), which gives each name its prefix, and under such names
 *
 *   block                                 16 float32
 *   lanes                                 the 16 partial sums in float64
 *   load_f32, load_f16, load_bf16(p)      16 elements at p, widened to a block
 *   store_f32, store_f16, store_bf16(p, b)  a block rounded to 16 elements at p
 *   store_finite_bf16(p, b)               the same; may take NaN for anything
 *   fma(a, v, x)                          a * v + x with one rounding, a one float32
 *   zero()                                lanes of +0
 *   add(sums, x, v)                       sums + x * v of the 16 float32 at each
 *   add_two(&c, &d, x, y, v)              the same for two rows
 *   join(sums)                            by the tree of docs/numerics.md
 */
#define element float
#define KERNEL(name) ISA(name##_f32_rows)
#define LOAD ISA(load_f32)
#define STORE ISA(store_f32)
#define STORE_FINITE ISA(store_f32)
#include "project_kernels.h"
#undef element
#undef KERNEL
#undef LOAD
#undef STORE
#undef STORE_FINITE

#define element uint16_t
#define KERNEL(name) ISA(name##_f16_rows)
#define LOAD ISA(load_f16)
#define STORE ISA(store_f16)
#define STORE_FINITE ISA(store_f16)
#include "project_kernels.h"
#undef KERNEL
#undef LOAD
#undef STORE
#undef STORE_FINITE

#define KERNEL(name) ISA(name##_bf16_rows)
#define LOAD ISA(load_bf16)
#define STORE ISA(store_bf16)
#define STORE_FINITE ISA(store_finite_bf16)
#include "project_kernels.h"
#undef element
#undef KERNEL
#undef LOAD
#undef STORE
#undef STORE_FINITE

#define ISA_KERNELS                                                                                \
    {{ISA(project_f32_rows), ISA(project_f16_rows), ISA(project_bf16_rows)},                       \
     {ISA(add_f32_rows), ISA(add_f16_rows), ISA(add_bf16_rows)}}
