// Sums 512 elements a block by a tree in shared memory; launch again on the partial sums.
// block: 256
constexpr int THREADS = 256;

extern "C" __global__ void reduce(const float* __restrict__ x, float* __restrict__ partial, int n) {
    __shared__ float s[THREADS];
    int t = threadIdx.x, i = blockIdx.x * 2 * THREADS + t;
    s[t] = (i < n ? x[i] : 0.0f) + (i + THREADS < n ? x[i + THREADS] : 0.0f);
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) s[t] += s[t + half];
    }
    if (t == 0) partial[blockIdx.x] = s[0];
}
