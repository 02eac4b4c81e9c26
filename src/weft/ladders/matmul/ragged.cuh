// Matrices whose rows are no multiples of 16 bytes: number by number.
#pragma once
#include "tile.cuh"

__global__ void __launch_bounds__(256)
    ragged(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ __align__(16) float a[8][132], b[8][128];
    int t = threadIdx.x, tx = t % 16 * 4, ty = t / 16 * 4;
    int r0 = blockIdx.y * 128, c0 = blockIdx.x * 128;
    float sum[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = t; i < 1024; i += 256) {
            int ar = r0 + i / 8, ak = k0 + i % 8, bk = k0 + i / 128, bc = c0 + i % 128;
            a[i % 8][i / 8] = ar < M && ak < K ? A[ar * size_t(K) + ak] : 0;
            b[i / 128][i % 128] = bk < K && bc < N ? B[bk * size_t(N) + bc] : 0;
        }
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < 8; ++k) {
            float u[8], v[8];
            load8(u, &a[k][ty], 64), load8(v, &b[k][tx], 64);
            outer(sum, u, v);
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) {
            int row = r0 + ty + i % 4 + i / 4 * 64, col = c0 + tx + j % 4 + j / 4 * 64;
            if (row < M && col < N) C[row * size_t(N) + col] = sum[i][j];
        }
}
