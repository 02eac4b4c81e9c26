// y[r][c] is the sum of filter[i][j] * x[r + i - 1][c + j - 1].
__global__ void convolve(const float* x, const float* filter, float* y, int h, int w) {
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    if (r >= h || c >= w) return;
    float sum = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            int row = r + i - 1, column = c + j - 1;
            if (row >= 0 && row < h && column >= 0 && column < w)
                sum += filter[3 * i + j] * x[row * w + column];
        }
    y[r * w + c] = sum;
}
