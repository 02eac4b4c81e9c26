// y[i] is the sum of the values up to x[i] in its group of 256 (Hillis and Steele).
__global__ void scan(const float* x, float* y) {
    __shared__ float v[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    v[t] = x[i];
    __syncthreads();
    for (int k = 1; k < 256; k *= 2) {
        float sum = t >= k ? v[t] + v[t - k] : v[t];
        __syncthreads();
        v[t] = sum;
        __syncthreads();
    }
    y[i] = v[t];
}
