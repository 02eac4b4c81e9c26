// y = x x, as on a CPU: one thread does it all.
__global__ void square(const float* x, float* y, int n) {
    if (blockIdx.x == 0 && threadIdx.x == 0)
        for (int i = 0; i < n; i++) y[i] = x[i] * x[i];
}
