// rung:   05 register column
// idea:   one thread computes eight elements of a column: it uses an element of B eight times from
//         a register, and needs half as many loads from shared memory per product
// launch: matmul<<<(cdiv(N, 64), cdiv(M, 64)), 512>>>

__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[64][8], b[8][64];
    int t = threadIdx.x, col = t % 64, rows = t / 64 * 8;
    int r0 = blockIdx.y * 64, c0 = blockIdx.x * 64;
    float sum[8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        int ar = r0 + t / 8, ak = k0 + t % 8, bk = k0 + t / 64, bc = c0 + t % 64;
        a[t / 8][t % 8] = ar < M && ak < K ? A[ar * size_t(K) + ak] : 0;
        b[t / 64][t % 64] = bk < K && bc < N ? B[bk * size_t(N) + bc] : 0;
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            float v = b[k][col];
#pragma unroll
            for (int i = 0; i < 8; ++i) sum[i] += a[rows + i][k] * v;
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (r0 + rows + i < M && c0 + col < N) C[(r0 + rows + i) * size_t(N) + c0 + col] = sum[i];
}
