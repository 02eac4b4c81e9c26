// Tensor cores by mma.sync for float16, bfloat16 and tf32: the same bytes in the same places. A
// fragment of a warp has 16 rows (A) or 8 columns (B) and 32 bytes along K: 16 elements of 16 bits,
// or 8 of tf32.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ inline unsigned shared_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Copies 16 bytes to shared memory, or zeros.
__device__ inline void copy16(unsigned to, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(inside ? 16 : 0));
}

// The same for 16 or 8 bytes.
template <int COPY>
__device__ void copy(unsigned to, const void* from, bool inside) {
    if constexpr (COPY == 16) copy16(to, from, inside);
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from),
                     "r"(inside ? 8 : 0));
}

// Loads four matrices of 8 rows of 16 bytes; lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void load_matrices(unsigned* to, unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
}
__device__ inline void load_transposed(unsigned* to, unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
}

__device__ inline unsigned as_tf32(unsigned x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(__uint_as_float(x)));
    return y;
}

// c += a b for fragments. T is float for tf32.
template <class T>
__device__ void multiply(float* c, const unsigned* a, const unsigned* b);

#define WEFT_MULTIPLY(T, SHAPE)                                                          \
    template <>                                                                          \
    __device__ inline void multiply<T>(float* c, const unsigned* a, const unsigned* b) { \
        asm("mma.sync.aligned." SHAPE                                                    \
            " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"           \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                             \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));         \
    }
WEFT_MULTIPLY(__half, "m16n8k16.row.col.f32.f16.f16.f32")
WEFT_MULTIPLY(__nv_bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32")
WEFT_MULTIPLY(float, "m16n8k8.row.col.f32.tf32.tf32.f32")
#undef WEFT_MULTIPLY

// A tile in shared memory: rows of BYTES bytes. Vectors change places within a row, so that the
// eight rows which ldmatrix reads together lie in different banks.
template <int BYTES>
__device__ unsigned place(int row, int vector) {
    return row * BYTES + ((vector ^ (BYTES == 64 ? row >> 1 & 3 : row & 7)) << 4);
}

// Fragments of a tile whose rows are steps along K, PITCH elements apart: COUNT of A with 16 rows
// each, or pairs of B.
template <class T, int PITCH, int COUNT>
__device__ void load_channels(unsigned (*to)[4], const T* tile, bool pairs) {
    int lane = threadIdx.x % 32;
    if constexpr (sizeof(T) == 2) {
        // A has the matrices (channels, pixels) 00 10 01 11, a pair of B has 00 01 10 11.
        int k = pairs ? lane / 8 % 2 : lane / 16, c = pairs ? lane / 16 : lane / 8 % 2;
        unsigned from = shared_address(tile + (k * 8 + lane % 8) * PITCH + c * 8);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) load_transposed(to[i], from + i * 16 * sizeof(T));
    } else {
        int g = lane / 4, t = lane % 4;
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int k = pairs ? e % 2 : e / 2, c = pairs ? e / 2 : e % 2;
                to[i][e] = __float_as_uint(tile[(k * 4 + t) * PITCH + i * 16 + c * 8 + g]);
            }
    }
}
