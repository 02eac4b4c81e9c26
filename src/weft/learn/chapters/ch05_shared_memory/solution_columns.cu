// Transposes every tile of 32 x 32 elements. The block has 32 x 8 threads.
__global__ void tiles(const float* x, float* y) {
    __shared__ float tile[32][33];  // the padding moves each row by one bank
    x += blockIdx.x * 1024;
    y += blockIdx.x * 1024;
    for (int row = threadIdx.y; row < 32; row += 8)
        tile[row][threadIdx.x] = x[row * 32 + threadIdx.x];
    __syncthreads();
    for (int row = threadIdx.y; row < 32; row += 8)
        y[row * 32 + threadIdx.x] = tile[threadIdx.x][row];
}
