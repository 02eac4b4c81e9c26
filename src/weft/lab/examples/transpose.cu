// Transposes a matrix through a tile in shared memory.
// Profile it, then select line 14: a column of the tile is in one bank. Make the tile [32][33].

__global__ void transpose(const float* x, float* y, int rows, int columns) {
    __shared__ float tile[32][32];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (r + i < rows && c < columns)
            tile[threadIdx.y + i][threadIdx.x] = x[(r + i) * columns + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (r + i < columns && c < rows) y[(r + i) * rows + c] = tile[threadIdx.x][threadIdx.y + i];
}
