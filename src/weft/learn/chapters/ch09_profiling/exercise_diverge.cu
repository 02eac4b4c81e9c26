// y[i] is a logarithm for even i and an exponential for odd i.
__global__ void curves(const float* x, float* y) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i % 2 == 0) y[i] = log1pf(x[i]);
    else y[i] = expf(x[i]);
}
