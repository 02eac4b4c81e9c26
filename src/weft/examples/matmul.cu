// matmul: C = A B for n x n matrices, n a multiple of 32.
// A block computes a 32 x 32 tile of C. It walks along K in steps of 32: all threads load one
// element of A and of B into shared memory, wait, and use each of them 32 times.
// grid: (n / 32, n / 32)   block: (32, 32)

constexpr int TILE = 32;

__global__ void matmul(const float* A, const float* B, float* C, int n) {
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += TILE) {
        a[threadIdx.y][threadIdx.x] = A[row * n + k + threadIdx.x];
        b[threadIdx.y][threadIdx.x] = B[(k + threadIdx.y) * n + col];
        __syncthreads();  // the tiles are complete
        for (int j = 0; j < TILE; ++j) sum += a[threadIdx.y][j] * b[j][threadIdx.x];
        __syncthreads();  // no thread reads the tiles any more
    }
    C[row * n + col] = sum;
}
