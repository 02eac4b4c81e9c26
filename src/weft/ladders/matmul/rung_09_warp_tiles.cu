// rung:   09 warp tiles
// idea:   a warp computes 64 x 32 elements of C, with its lanes arranged as 8 x 4: they load 64 +
//         32 different numbers instead of 16 + 128, and most loads are broadcasts. The next tile is
//         loaded into registers while the current one is used

#include "ragged.cuh"

__global__ void __launch_bounds__(256)
    matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ __align__(16) float a[2][8][132], b[2][8][128];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    int ty = warp / 4 * 64 + lane / 4 * 4, tx = warp % 4 * 32 + lane % 4 * 4;
    int r0 = blockIdx.y * 128, c0 = blockIdx.x * 128;
    float sum[8][8] = {};
    auto store = [&](int to, float4 u, float4 v) {
        int k = t % 2 * 4, r = t / 2;
        a[to][k][r] = u.x, a[to][k + 1][r] = u.y, a[to][k + 2][r] = u.z, a[to][k + 3][r] = u.w;
        *reinterpret_cast<float4*>(&b[to][t / 32][t % 32 * 4]) = v;
    };
    store(0, four(A, r0 + t / 2, t % 2 * 4, M, K), four(B, t / 32, c0 + t % 32 * 4, K, N));
    __syncthreads();
    for (int k0 = 0, now = 0; k0 < K; k0 += 8, now ^= 1) {
        float4 u4, v4;
        bool more = k0 + 8 < K;
        if (more) {
            u4 = four(A, r0 + t / 2, k0 + 8 + t % 2 * 4, M, K);
            v4 = four(B, k0 + 8 + t / 32, c0 + t % 32 * 4, K, N);
        }
#pragma unroll 1
        for (int k = 0; k < 8; ++k) {
            float u[8], v[8];
            load8(u, &a[now][k][ty], 32), load8(v, &b[now][k][tx], 16);
            outer(sum, u, v);
        }
        if (more) store(now ^ 1, u4, v4);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int row = r0 + ty + i % 4 + i / 4 * 32;
        put4(C, row, c0 + tx, M, N, &sum[i][0]);
        put4(C, row, c0 + tx + 16, M, N, &sum[i][4]);
    }
}
