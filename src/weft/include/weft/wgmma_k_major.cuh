// Tensor cores by warpgroups (wgmma) for elements of 8 and of 32 bits, whose operands must have
// neighbours along K: tf32 and fp8, with sums in 32 bits. Needs sm_90a.
//
// Tiles, descriptors and the order of calls are those of weft/wgmma.cuh: a row of a slab has 128
// bytes, 32 elements of tf32 or 128 of fp8. An instruction takes 32 bytes of K of both operands.
//
//     weft::wgmma_k_major<weft::E4m3, weft::E5m2>(c, weft::wgmma_rows(a), weft::wgmma_rows(b),
//                                                 false);  // 32 of K
//
// A product of fp8 adds its 32 terms and c aligned to the largest of them, with 13 bits below it:
// long sums are added in parts, each begun anew. One of tf32 ignores the lower 13 bits of its
// operands; a tensor map of the type tf32 rounds them on the way to shared memory.
#pragma once
#include "bytes.cuh"
#include "wgmma.cuh"

namespace weft {

// Elements: numbers of tf32 in 32 bits; weft/bytes.cuh has those of fp8.
struct Tf32 {
    float value;
};

#if WEFT_HAS_WGMMA
template <class T>
constexpr bool IS_E4M3 = false;
template <>
constexpr bool IS_E4M3<E4m3> = true;
#define WEFT_K_MAJOR_TEXT(WIDTH, K, TYPES, LIST, A, B, P)                                     \
    "{ .reg .pred p; setp.ne.b32 p, " P ", 0; wgmma.mma_async.sync.aligned.m64n" #WIDTH "k" K \
    ".f32." TYPES " {" LIST "}, " A ", " B ", p, 1, 1; }"
#define WEFT_K_MAJOR_ONE(WIDTH, K, TYPES, LIST, FLOATS, R0, R1, R2)   \
    asm volatile(WEFT_K_MAJOR_TEXT(WIDTH, K, TYPES, LIST, R0, R1, R2) \
                 : WEFT_ALL FLOATS                                    \
                 : "l"(a), "l"(b), "r"(int(accumulate)))
#define WEFT_K_MAJOR(WIDTH, LIST, FLOATS, R0, R1, R2, R3, R4, R5)                        \
    template <class A, class B>                                                          \
    __device__ inline void wgmma_k_major(float (&c)[WIDTH / 8][4], unsigned long long a, \
                                         unsigned long long b, bool accumulate) {        \
        if constexpr (sizeof(A) == 4)                                                    \
            WEFT_K_MAJOR_ONE(WIDTH, "8", "tf32.tf32", LIST, FLOATS, R0, R1, R2);         \
        else if constexpr (IS_E4M3<A> && IS_E4M3<B>)                                     \
            WEFT_K_MAJOR_ONE(WIDTH, "32", "e4m3.e4m3", LIST, FLOATS, R0, R1, R2);        \
        else if constexpr (IS_E4M3<A>)                                                   \
            WEFT_K_MAJOR_ONE(WIDTH, "32", "e4m3.e5m2", LIST, FLOATS, R0, R1, R2);        \
        else if constexpr (IS_E4M3<B>)                                                   \
            WEFT_K_MAJOR_ONE(WIDTH, "32", "e5m2.e4m3", LIST, FLOATS, R0, R1, R2);        \
        else WEFT_K_MAJOR_ONE(WIDTH, "32", "e5m2.e5m2", LIST, FLOATS, R0, R1, R2);       \
    }
WEFT_WIDTHS(WEFT_K_MAJOR)
#else
// Compiled for another GPU, a kernel must not come here.
template <class A, class B, int N>
__device__ inline void wgmma_k_major(float (&)[N][4], unsigned long long, unsigned long long,
                                     bool) {
    __trap();
}
#endif

}  // namespace weft
