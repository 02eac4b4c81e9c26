// Transposes x, a matrix of h rows and w columns.
// A block of 32 x 8 threads moves a tile of 32 x 32.
__global__ void transpose(const float* x, float* y, int h, int w) {
    int column = blockIdx.x * 32 + threadIdx.x;
    for (int k = 0; k < 32; k += 8) {
        int row = blockIdx.y * 32 + threadIdx.y + k;
        if (row < h && column < w) y[column * h + row] = x[row * w + column];
    }
}
