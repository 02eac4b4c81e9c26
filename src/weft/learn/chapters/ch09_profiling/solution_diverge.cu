// y[i] is a logarithm for even i and an exponential for odd i. Warps 0 and 1 take the even ones.
__global__ void curves(const float* x, float* y) {
    int t = threadIdx.x, i = blockIdx.x * 128 + 2 * (t % 64) + t / 64;
    if (t < 64) y[i] = log1pf(x[i]);
    else y[i] = expf(x[i]);
}
