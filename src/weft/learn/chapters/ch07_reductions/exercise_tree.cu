// sums[b] is the sum of the 256 values of block b.
__global__ void sums_of(const float* x, float* sums) {
    __shared__ float v[256];
    int t = threadIdx.x;
    v[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        if (t % (2 * step) == 0) v[t] += v[t + step];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = v[0];
}
