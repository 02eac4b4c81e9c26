// rung:   07 vectorised
// idea:   16 bytes per access to global and shared memory; the tile of A is transposed when it is
//         stored, so that the eight numbers of A that a thread needs are adjacent too

#include "ragged.cuh"

__global__ void __launch_bounds__(256)
    matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ __align__(16) float a[8][128], b[8][128];
    int t = threadIdx.x, tx = t % 16 * 8, ty = t / 16 * 8;
    int r0 = blockIdx.y * 128, c0 = blockIdx.x * 128;
    float sum[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        float4 u = four(A, r0 + t / 2, k0 + t % 2 * 4, M, K);
        float4 v = four(B, k0 + t / 32, c0 + t % 32 * 4, K, N);
        int k = t % 2 * 4, r = t / 2;
        a[k][r] = u.x, a[k + 1][r] = u.y, a[k + 2][r] = u.z, a[k + 3][r] = u.w;
        *reinterpret_cast<float4*>(&b[t / 32][t % 32 * 4]) = v;
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < 8; ++k) {
            float u[8], v[8];
            load8(u, &a[k][ty], 4), load8(v, &b[k][tx], 4);
            outer(sum, u, v);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        put4(C, r0 + ty + i, c0 + tx, M, N, &sum[i][0]);
        put4(C, r0 + ty + i, c0 + tx + 4, M, N, &sum[i][4]);
    }
}
