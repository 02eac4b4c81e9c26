// y[r][c] is the sum of filter[i][j] * x[r + i - 1][c + j - 1]. A block computes 8 x 32 results.
__global__ void convolve(const float* x, const float* filter, float* y, int h, int w) {
    __shared__ float tile[10][34];
    int first_row = blockIdx.y * 8 - 1, first_column = blockIdx.x * 32 - 1;
    for (int k = threadIdx.y * 32 + threadIdx.x; k < 340; k += 256) {
        int row = first_row + k / 34, column = first_column + k % 34;
        bool inside = row >= 0 && row < h && column >= 0 && column < w;
        tile[k / 34][k % 34] = inside ? x[row * w + column] : 0.0f;
    }
    __syncthreads();
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    if (r >= h || c >= w) return;
    float sum = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            sum += filter[3 * i + j] * tile[threadIdx.y + i][threadIdx.x + j];
    y[r * w + c] = sum;
}
