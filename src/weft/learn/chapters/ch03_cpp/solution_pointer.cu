// y = x + the last row of x. One block for each row.
__global__ void add_last(const float* x, float* y, int rows, int columns) {
    const float* last = x + (rows - 1) * columns;
    const float* row = x + blockIdx.x * columns;
    for (int c = threadIdx.x; c < columns; c += blockDim.x)
        y[blockIdx.x * columns + c] = row[c] + last[c];
}
