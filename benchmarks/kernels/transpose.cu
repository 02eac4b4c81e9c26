// Transpose through a padded 32 x 32 tile: both sides of global memory are read and written in rows.
// block: 32, 8
constexpr int T = 32, ROWS = 8;

extern "C" __global__ void transpose(const float* __restrict__ x, float* __restrict__ y, int rows,
                                     int cols) {
    __shared__ float tile[T][T + 1];
    int col = blockIdx.x * T + threadIdx.x, row = blockIdx.y * T + threadIdx.y;
    for (int r = 0; r < T; r += ROWS)
        if (col < cols && row + r < rows)
            tile[threadIdx.y + r][threadIdx.x] = x[(row + r) * cols + col];
    __syncthreads();
    col = blockIdx.y * T + threadIdx.x;
    row = blockIdx.x * T + threadIdx.y;
    for (int r = 0; r < T; r += ROWS)
        if (col < rows && row + r < cols)
            y[(row + r) * rows + col] = tile[threadIdx.x][threadIdx.y + r];
}
