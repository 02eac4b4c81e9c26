// rung:   04 shared tile
// idea:   a block of 32 x 32 threads loads a tile of A and a tile of B once, and uses every element
//         32 times from shared memory
// expect: bytes read per result < 600
// launch: matmul<<<(cdiv(N, 32), cdiv(M, 32)), (32, 32)>>>

__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[32][32], b[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    int col = blockIdx.x * 32 + x, row = blockIdx.y * 32 + y;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += 32) {
        a[y][x] = row < M && k0 + x < K ? A[row * size_t(K) + k0 + x] : 0;
        b[y][x] = col < N && k0 + y < K ? B[(k0 + y) * size_t(N) + col] : 0;
        __syncthreads();
        for (int k = 0; k < 32; ++k) sum += a[y][k] * b[k][x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * size_t(N) + col] = sum;
}
