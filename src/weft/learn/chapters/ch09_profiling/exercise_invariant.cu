// y = x / sqrt(1 + the sum of the squares of the row). One block of 128 threads for each row.
__global__ void normalise(const float* x, float* y, int n) {
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += 128) {
        float sum = 1;
        for (int k = 0; k < n; k++) sum += x[k] * x[k];
        y[i] = x[i] / sqrtf(sum);
    }
}
