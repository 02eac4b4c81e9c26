// rung:   03 coalesced
// idea:   threadIdx.x is the column: the lanes of a warp read adjacent elements of B and the same
//         element of A, and write adjacent elements of C
// expect: load sectors per request <= 2.6
// expect: store sectors per request = 4
// launch: matmul<<<(cdiv(N, 32), cdiv(M, 32)), (32, 32)>>>

__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * size_t(K) + k] * B[k * size_t(N) + col];
    C[row * size_t(N) + col] = sum;
}
