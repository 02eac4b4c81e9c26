// Tensor-core instructions on fragments, and what the rungs with tiles of 128 x 128 share.
#pragma once
#include <cuda_bf16.h>
#include <weft/mma.cuh>

using T = __nv_bfloat16;

// Four matrices of 8 x 8; a lane has the address of one row. TRANSPOSED exchanges rows and columns.
template <bool TRANSPOSED>
__device__ void load_matrices(unsigned* r, const T* row) {
    weft::load_matrices_x4<TRANSPOSED>(r, weft::shared_address(row));
}

// Eight warps with 64 x 32 of a tile of 128 x 128. PITCH_A and PITCH_B are the lengths of rows in
// shared memory.
template <int PITCH_A, int PITCH_B>
struct Warp {
    float of[4][4][4] = {};
    int lane = threadIdx.x % 32, m0 = threadIdx.x / 128 * 64, n0 = threadIdx.x / 32 % 4 * 32;

    // as[128][32], bs[32][128]
    __device__ void add(const T* as, const T* bs) {
        for (int k = 0; k < 32; k += 16) {
            unsigned a[4][4], b[2][4];
            for (int i = 0; i < 4; ++i)
                load_matrices<false>(a[i],
                                     as + (m0 + i * 16 + lane % 16) * PITCH_A + k + lane / 16 * 8);
            for (int j = 0; j < 2; ++j)
                load_matrices<true>(b[j],
                                    bs + (k + lane % 16) * PITCH_B + n0 + j * 16 + lane / 16 * 8);
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) weft::mma<T>(of[i][j], a[i], &b[j / 2][j % 2 * 2]);
        }
    }
    __device__ void write(T* C, int row, int column, int M, int N) const {
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j)
                for (int h = 0; h < 2; ++h) {
                    int m = row + m0 + i * 16 + h * 8 + lane / 4,
                        n = column + n0 + j * 8 + lane % 4 * 2;
                    if (m < M && n < N)
                        *reinterpret_cast<__nv_bfloat162*>(C + size_t(m) * N + n) =
                            __floats2bfloat162_rn(of[i][j][h * 2], of[i][j][h * 2 + 1]);
                }
    }
};
