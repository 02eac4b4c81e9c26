// y = 2.5 x + y0. The grid always has 4 blocks of 128 threads.
__global__ void axpy(const float* x, const float* y0, float* y, int n) {
    int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        y[i] = 2.5f * x[i] + y0[i];
}
