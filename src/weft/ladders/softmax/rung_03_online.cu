// rung:   03 online
// idea:   maximum and sum in one pass: at a larger element, the sum so far is scaled down (online
//         softmax, Milakov and Gimelshein). Two passes over memory instead of three
// launch: softmax<<<rows, 256>>>

__device__ float larger(float a, float b) { return a > b || a != a ? a : b; }

// A sum that was relative to `from`, relative to `to`; one that is still empty stays so.
__device__ float scaled(float sum, float from, float to) {
    return from == __int_as_float(0xff800000) ? 0 : sum * expf(from - to);
}

__global__ void softmax(const float* x, float* y, int n) {
    __shared__ float mosts[8], sums[8];
    x += size_t(blockIdx.x) * n, y += size_t(blockIdx.x) * n;
    float most = __int_as_float(0xff800000), sum = 0;
    for (int i = threadIdx.x; i < n; i += 256) {
        float v = x[i], m = larger(v, most);
        if (m == __int_as_float(0xff800000)) continue;  // nothing but -inf so far
        sum = scaled(sum, most, m) + expf(v - m);
        most = m;
    }
    auto join = [&](float m2, float s2) {
        float m = larger(m2, most);
        if (m == __int_as_float(0xff800000)) return;
        sum = scaled(sum, most, m) + scaled(s2, m2, m);
        most = m;
    };
    for (int d = 16; d > 0; d /= 2)
        join(__shfl_xor_sync(~0u, most, d), __shfl_xor_sync(~0u, sum, d));
    if (threadIdx.x % 32 == 0) mosts[threadIdx.x / 32] = most, sums[threadIdx.x / 32] = sum;
    __syncthreads();
    most = mosts[0], sum = sums[0];
    for (int w = 1; w < 8; ++w) join(mosts[w], sums[w]);
    for (int i = threadIdx.x; i < n; i += 256) y[i] = expf(x[i] - most) / sum;
}
