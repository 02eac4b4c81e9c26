// rung:   02 padded
// idea:   one more column in the tile: adjacent elements of a column are 33 words apart, so they
//         are in 32 different banks
// expect: shared load wavefronts per request = 1
// launch: transpose<<<(cdiv(columns, 32), cdiv(rows, 32)), (32, 8)>>>

__global__ void transpose(const float* x, float* y, int rows, int columns) {
    __shared__ float tile[32][33];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (r + i < rows && c < columns)
            tile[threadIdx.y + i][threadIdx.x] = x[size_t(r + i) * columns + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (r + i < columns && c < rows)
            y[size_t(r + i) * rows + c] = tile[threadIdx.x][threadIdx.y + i];
}
