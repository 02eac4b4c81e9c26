// Tensor cores by mma.sync: products of fragments that the 32 lanes of a warp hold together, with
// sums in single precision, or of integers. Needs sm_80.
//
// A fragment of A has 16 rows, one of B 8 columns; both have 32 bytes along K: 16 elements of 16
// bits, 8 of tf32, or 32 of 8 bits. T is __half, __nv_bfloat16, or float for tf32. All 32 lanes of
// a warp call these functions together.
#pragma once
#include "async.cuh"
#include "packed.cuh"
#include "warp.cuh"

namespace weft {

// Loads four matrices of 8 rows of 16 bytes from shared memory (ldmatrix). Lane i gives the address
// of row i % 8 of matrix i / 8. TRANSPOSED exchanges rows and columns of 16-bit elements.
template <bool TRANSPOSED = false>
__device__ inline void load_matrices_x4(unsigned* to, unsigned shared) {
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(shared)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(shared)
                     : "memory");
}

// Loads two such matrices; the addresses of lanes 16 to 31 are not used.
template <bool TRANSPOSED = false>
__device__ inline void load_matrices_x2(unsigned* to, unsigned shared) {
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(to[0]), "=r"(to[1])
                     : "r"(shared)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(to[0]), "=r"(to[1])
                     : "r"(shared)
                     : "memory");
}

// Returns the place of a lane's row, in elements, for load_matrices_x4 of 16 x 16 elements whose
// rows are `pitch` elements apart: a fragment of A that lies as [m][k], or with TRANSPOSED a pair
// of fragments of B that lies as [k][n].
__device__ inline int a_row(int pitch) { return lane_index() % 16 * pitch + lane_index() / 16 * 8; }

// Returns the same for a pair of fragments of B that lies as [n][k].
__device__ inline int b_row(int pitch) {
    return (lane_index() / 16 * 8 + lane_index() % 8) * pitch + lane_index() / 8 % 2 * 8;
}

// Returns the place, in bytes, of vector `vector` of 16 bytes in a tile whose rows have ROW_BYTES
// bytes (a power of two from 32 on). Vectors change places within a row, so that the eight rows
// that one ldmatrix reads together lie in different banks.
template <int ROW_BYTES>
__device__ inline unsigned swizzle(int row, int vector) {
    constexpr int VECTORS = ROW_BYTES / 16, SHARING = VECTORS >= 8 ? 1 : 8 / VECTORS;
    return row * ROW_BYTES + ((vector ^ (row / SHARING % (VECTORS < 8 ? VECTORS : 8))) << 4);
}

// Adds the product of fragments to the accumulator of 16 rows and 8 columns: c += a b.
// A lane holds c[i] of row lane / 4 + i / 2 * 8 and column lane % 4 * 2 + i % 2.
template <class T>
__device__ inline void mma(float* c, const unsigned* a, const unsigned* b);

#define WEFT_MMA(T, SHAPE)                                                          \
    template <>                                                                     \
    __device__ inline void mma<T>(float* c, const unsigned* a, const unsigned* b) { \
        asm("mma.sync.aligned." SHAPE                                               \
            " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "                       \
            "{%0, %1, %2, %3};"                                                     \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                        \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));    \
    }
WEFT_MMA(__half, "m16n8k16.row.col.f32.f16.f16.f32")
WEFT_MMA(__nv_bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32")
WEFT_MMA(float, "m16n8k8.row.col.f32.tf32.tf32.f32")
#undef WEFT_MMA

// Adds the product of fragments of signed 8-bit integers, modulo 2^32; they lie in memory as 16-bit
// elements of two each.
__device__ inline void mma_int8(int* c, const unsigned* a, const unsigned* b) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Returns the row of c[i] of an accumulator, and its column.
__device__ inline int c_row(int i) { return lane_index() / 4 + i / 2 * 8; }
__device__ inline int c_column(int i) { return lane_index() % 4 * 2 + i % 2; }

// Makes the accumulators of two neighbours, 16 x 16, a fragment of A of 16-bit elements.
template <class T>
__device__ inline void c_to_a(unsigned* a, const float* low, const float* high) {
    a[0] = pack<T>(low[0], low[1]), a[1] = pack<T>(low[2], low[3]);
    a[2] = pack<T>(high[0], high[1]), a[3] = pack<T>(high[2], high[3]);
}

// Stores four matrices of 8 x 8 elements of 16 bits in shared memory, as load_matrices_x4 loads
// them: lane i names the address of row i % 8 of matrix i / 8. TRANSPOSED: of column i % 8. Needs
// sm_90.
template <bool TRANSPOSED = false>
__device__ inline void store_matrices_x4(unsigned shared, const unsigned* a) {
    if constexpr (TRANSPOSED)
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared),
            "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
            : "memory");
    else
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared),
            "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
            : "memory");
}

// Rounds to tf32, to the nearest, ties away from 0; returns the bits of a float.
__device__ inline unsigned to_tf32(float x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

// Splits x into two numbers of tf32 whose sum has the accuracy of single precision.
__device__ inline void split_tf32(float x, unsigned& big, unsigned& small) {
    big = to_tf32(x);
    small = to_tf32(x - __uint_as_float(big));
}

}  // namespace weft
