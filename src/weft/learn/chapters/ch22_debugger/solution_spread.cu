// y[r] is the standard deviation of row r, by one thread.
__global__ void spread(const float* x, float* y, int rows, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[r * n + i];
    float mean = sum / n, squares = 0;
    // Both terms of squares / n - mean * mean are a million, and their difference is less than 1.
    for (int i = 0; i < n; i++) {
        float v = x[r * n + i] - mean;
        squares += v * v;
    }
    y[r] = sqrtf(squares / n);
}
