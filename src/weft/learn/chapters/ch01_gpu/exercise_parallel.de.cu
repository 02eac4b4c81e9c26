// y = x x, wie auf einer CPU: Ein Thread tut alles.
__global__ void square(const float* x, float* y, int n) {
    if (blockIdx.x == 0 && threadIdx.x == 0)
        for (int i = 0; i < n; i++) y[i] = x[i] * x[i];
}
