// Tensor cores with a sparse left operand: of each four neighbours along K, two are kept. Sums are
// in single precision. mma_sparse needs sm_80, wgmma_sparse sm_90a.
//
// A holds the kept elements, half of K, and metadata their places: four bits for four neighbours,
// the place of the first and then of the second, which is larger. B is whole. T is __half or
// __nv_bfloat16.
//
// A word of metadata has 16 of K of two rows. Lane i has those of rows i / 4 (lower half) and
// i / 4 + 8 of the warp's 16, and of the sixteen i % 4 of 64 of K: one word of each thread serves
// two products of 32 of K, the first with SELECTOR 0, the second with 1.
#pragma once
#include "wgmma.cuh"

namespace weft {

// Adds a product of 16 rows, 8 columns and 32 of K: c += a b. A fragment of A is that of mma<T>, of
// kept elements; one of B has two of mma<T>, of 16 of K each. All lanes of a warp call it.
template <class T, int SELECTOR>
__device__ inline void mma_sparse(float* c, const unsigned* a, const unsigned* b,
                                  unsigned metadata) {
    static_assert(SELECTOR == 0 || SELECTOR == 1, "0 or 1");
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define WEFT_MMA_SPARSE(TYPE)                                                                     \
    asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32." TYPE "." TYPE               \
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, "                           \
        "{%0, %1, %2, %3}, %12, %13;"                                                             \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                          \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), \
          "r"(metadata), "n"(SELECTOR))
    if constexpr (IS_HALF<T>) WEFT_MMA_SPARSE("f16");
    else WEFT_MMA_SPARSE("bf16");
#undef WEFT_MMA_SPARSE
#else
    __trap();
#endif
}

// Returns the descriptor of an operand whose rows have 64 bytes, 32 elements along K, with their
// vectors at swizzle<64>(row, vector): that of 64 of K of a sparse A. `shared` is the address of
// its first row, at a multiple of 8 rows and of 16 elements; the tile begins at a multiple of 512.
__device__ inline unsigned long long wgmma_rows_64(unsigned shared) {
    return (shared & 0x3ffff) >> 4 | 1ull << 16 | 32ull << 32 | 2ull << 62;
}

// wgmma_sparse<T, SELECTOR>(c, a, b, metadata, accumulate) multiplies 64 rows of A and 8 N columns
// of B over 32 of K, 16 kept ones: c += a b, or c = a b without `accumulate`. `a` and `b` are
// descriptors of operands with neighbours along K; moved by 32 and 64 bytes, they are those of the
// next 32 of K. Metadata must not change until the product has ended. All threads of a warpgroup
// call it, in the order of calls of wgmma.cuh.
#if WEFT_HAS_WGMMA
#define WEFT_SPARSE_ONE(WIDTH, TYPE, LIST, FLOATS, R0, R1, R2, R3, R4)                       \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " R4                                        \
                 ", 0; wgmma.mma_async.sp.sync.aligned.m64n" #WIDTH "k32.f32." TYPE "." TYPE \
                 " {" LIST "}, " R0 ", " R1 ", " R2 ", " R3 ", p, 1, 1, 0, 0; }"             \
                 : WEFT_ALL FLOATS                                                           \
                 : "l"(a), "l"(b), "r"(metadata), "n"(SELECTOR), "r"(int(accumulate)))
#define WEFT_SPARSE(WIDTH, LIST, FLOATS, R0, R1, R2, R3, R4, R5)                                   \
    template <class T, int SELECTOR>                                                               \
    __device__ inline void wgmma_sparse(float (&c)[WIDTH / 8][4], unsigned long long a,            \
                                        unsigned long long b, unsigned metadata,                   \
                                        bool accumulate) {                                         \
        static_assert(SELECTOR == 0 || SELECTOR == 1, "0 or 1");                                   \
        if constexpr (IS_HALF<T>) WEFT_SPARSE_ONE(WIDTH, "f16", LIST, FLOATS, R0, R1, R2, R3, R4); \
        else WEFT_SPARSE_ONE(WIDTH, "bf16", LIST, FLOATS, R0, R1, R2, R3, R4);                     \
    }
WEFT_WIDTHS(WEFT_SPARSE)
#else
// Compiled for another GPU, a kernel must not come here.
template <class T, int SELECTOR, int N>
__device__ inline void wgmma_sparse(float (&)[N][4], unsigned long long, unsigned long long,
                                    unsigned, bool) {
    __trap();
}
#endif

}  // namespace weft
