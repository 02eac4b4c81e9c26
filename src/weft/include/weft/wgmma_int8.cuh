// Tensor cores by warpgroups (wgmma) for signed integers of 8 bits, with exact sums in 32 bits.
// Needs sm_90a.
//
// Tiles, descriptors and the order of calls are those of weft/wgmma.cuh: both operands have
// neighbours along K, and a row of a slab has 128 elements. An instruction takes 32 of K. The
// columns are 8, 24, or a multiple of 16 up to 256, as the instruction has them.
//
//     int c[4][4];
//     weft::wgmma_int8(c, weft::wgmma_rows(a), weft::wgmma_rows(b), false);  // 32 of K
//
// Sums are modulo 2^32: those of up to 131,071 products are exact.
#pragma once
#include "wgmma.cuh"

namespace weft {

// Keeps the compiler from reading integer results before this point, as wgmma_results of floats.
template <int N>
__device__ inline void wgmma_results(int (&c)[N][4]) {
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(c[n][i])::"memory");
}

// wgmma_int8(c, a, b, accumulate) multiplies 64 rows of A and 8 N columns of B over 32 elements of
// K: c += a b, or c = a b without `accumulate`. Descriptors are those of wgmma_rows.
#if WEFT_HAS_WGMMA
#undef WEFT_SUM
#define WEFT_SUM "+r"
#define WEFT_INT8(WIDTH, LIST, INTEGERS, R0, R1, R2, R3, R4, R5)                            \
    __device__ inline void wgmma_int8(int (&c)[WIDTH / 8][4], unsigned long long a,         \
                                      unsigned long long b, bool accumulate) {              \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " R2                                   \
                     ", 0; wgmma.mma_async.sync.aligned.m64n" #WIDTH "k32.s32.s8.s8 {" LIST \
                     "}, " R0 ", " R1 ", p; }"                                              \
                     : WEFT_ALL INTEGERS                                                    \
                     : "l"(a), "l"(b), "r"(int(accumulate)));                               \
    }
WEFT_WIDTHS(WEFT_INT8)
#undef WEFT_SUM
#define WEFT_SUM "+f"
#else
// Compiled for another GPU, a kernel must not come here.
template <int N>
__device__ inline void wgmma_int8(int (&)[N][4], unsigned long long, unsigned long long, bool) {
    __trap();
}
#endif

}  // namespace weft
