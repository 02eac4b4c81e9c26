// Softmax of rows, a block a row: the maximum and the sum by shuffles, then across warps.
// block: 256
constexpr int THREADS = 256, WARPS = THREADS / 32;

__device__ float largest(float a, float b) { return fmaxf(a, b); }
__device__ float total(float a, float b) { return a + b; }

template <float combine(float, float)>
__device__ float across_block(float v, float* shared) {
    for (int o = 16; o > 0; o /= 2) v = combine(v, __shfl_xor_sync(0xffffffff, v, o));
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = shared[0];
    for (int w = 1; w < WARPS; ++w) v = combine(v, shared[w]);
    return v;
}

extern "C" __global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ float shared[WARPS];
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    float m = __int_as_float(0xff800000);  // minus infinity
    for (int i = threadIdx.x; i < n; i += THREADS) m = fmaxf(m, x[i]);
    m = across_block<largest>(m, shared);
    float s = 0.0f;
    for (int i = threadIdx.x; i < n; i += THREADS) s += expf(x[i] - m);
    s = across_block<total>(s, shared);
    float scale = 1.0f / s;
    for (int i = threadIdx.x; i < n; i += THREADS) y[i] = expf(x[i] - m) * scale;
}
