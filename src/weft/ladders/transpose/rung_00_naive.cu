// rung:   00 naive
// idea:   one thread per element; a warp reads a row, which is contiguous, and writes a column,
//         which is not: each store of 4 bytes uses a sector of 32
// expect: load sectors per request <= 4
// expect: store sectors per request = 32
// launch: transpose<<<(cdiv(columns, 32), cdiv(rows, 8)), (32, 8)>>>

__global__ void transpose(const float* x, float* y, int rows, int columns) {
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    if (r < rows && c < columns) y[size_t(c) * rows + r] = x[size_t(r) * columns + c];
}
