// C = A B. A block of 16 x 16 threads computes a tile of C of the same size.
__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; k++) sum += A[row * K + k] * B[k * N + column];
    C[row * N + column] = sum;
}
