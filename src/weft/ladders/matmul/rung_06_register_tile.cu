// rung:   06 register tile
// idea:   one thread computes 8 x 8 elements of C: 16 numbers from shared memory give 64 products
// launch: matmul<<<(cdiv(N, 128), cdiv(M, 128)), 256>>>

__global__ void __launch_bounds__(256)
    matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[128][8], b[8][128];
    int t = threadIdx.x, tx = t % 16 * 8, ty = t / 16 * 8;
    int r0 = blockIdx.y * 128, c0 = blockIdx.x * 128;
    float sum[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = t; i < 1024; i += 256) {
            int ar = r0 + i / 8, ak = k0 + i % 8, bk = k0 + i / 128, bc = c0 + i % 128;
            a[i / 8][i % 8] = ar < M && ak < K ? A[ar * size_t(K) + ak] : 0;
            b[i / 128][i % 128] = bk < K && bc < N ? B[bk * size_t(N) + bc] : 0;
        }
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < 8; ++k) {
            float u[8], v[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) u[i] = a[ty + i][k], v[i] = b[k][tx + i];
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) sum[i][j] += u[i] * v[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
            if (r0 + ty + i < M && c0 + tx + j < N)
                C[(r0 + ty + i) * size_t(N) + c0 + tx + j] = sum[i][j];
}
