// C = A B. A block of 16 x 16 threads computes a tile of C of the same size.
__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][16], b[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
    float sum = 0;
    for (int first = 0; first < K; first += 16) {
        a[y][x] = row < M && first + x < K ? A[row * K + first + x] : 0.0f;
        b[y][x] = first + y < K && column < N ? B[(first + y) * N + column] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 16; k++) sum += a[y][k] * b[k][x];
        __syncthreads();
    }
    if (row < M && column < N) C[row * N + column] = sum;
}
