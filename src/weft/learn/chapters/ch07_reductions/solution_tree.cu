// sums[b] is the sum of the 256 values of block b.
__global__ void sums_of(const float* x, float* sums) {
    __shared__ float v[256];
    int t = threadIdx.x;
    v[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) v[t] += v[t + half];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = v[0];
}
