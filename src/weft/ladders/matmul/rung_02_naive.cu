// rung:   02 naive
// idea:   one thread per element of C. threadIdx.x is the row: the lanes of a warp read A, and
//         write C, with a stride of a whole row
// expect: load sectors per request > 15
// expect: store sectors per request = 32
// bench:  M=2048, N=2048, K=2048
// launch: matmul<<<(cdiv(M, 32), cdiv(N, 32)), (32, 32)>>>

__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.x * 32 + threadIdx.x, col = blockIdx.y * 32 + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * size_t(K) + k] * B[k * size_t(N) + col];
    C[row * size_t(N) + col] = sum;
}
