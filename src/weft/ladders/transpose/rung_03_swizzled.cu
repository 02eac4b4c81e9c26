// rung:   03 swizzled
// idea:   no padding: the column index is combined with the row index by exclusive or, and both
//         rows and columns of the tile are in 32 banks
// expect: shared load wavefronts per request = 1
// expect: shared store wavefronts per request = 1
// launch: transpose<<<(cdiv(columns, 32), cdiv(rows, 32)), (32, 8)>>>

__global__ void transpose(const float* x, float* y, int rows, int columns) {
    __shared__ float tile[32][32];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) {
        int row = threadIdx.y + i;
        if (r + i < rows && c < columns)
            tile[row][threadIdx.x ^ row] = x[size_t(r + i) * columns + c];
    }
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (r + i < columns && c < rows)
            y[size_t(r + i) * rows + c] = tile[threadIdx.x][(threadIdx.y + i) ^ threadIdx.x];
}
