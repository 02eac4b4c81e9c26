// Replaces every value by a mean of itself and its neighbours, 4 times, in groups of 256.
__global__ void smooth(const float* x, float* y) {
    __shared__ float v[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    v[t] = x[i];
    __syncthreads();
    for (int step = 0; step < 4; step++) {
        v[t] = 0.25f * v[max(t - 1, 0)] + 0.5f * v[t] + 0.25f * v[min(t + 1, 255)];
        __syncthreads();
    }
    y[i] = v[t];
}
