// The second kernel of training: statistics of all parts, then batch norm, ReLU and 2 x 2 max pooling. See conv_block.cuh.
#include "conv_block.cuh"

__device__ Moments of_warp(Moments own) {
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        Moments other = {__shfl_xor_sync(~0u, own.count, d), __shfl_xor_sync(~0u, own.mean, d),
                         __shfl_xor_sync(~0u, own.m2, d)};
        // The same order in both lanes: they need the same bits.
        Moments low = threadIdx.x & d ? other : own, high = threadIdx.x & d ? own : other;
        low.join(high);
        own = low;
    }
    return own;
}

// A block has one filter and `each` images; `count` parts. What a thread reads first arrives while the parts are joined.
template <class T, class P, int HELD>
__global__ void __launch_bounds__(256) normalise(const T* __restrict__ y, const float* __restrict__ parts,
                                                 const P* __restrict__ gamma, const P* __restrict__ beta,
                                                 T* __restrict__ out, float* __restrict__ means,
                                                 float* __restrict__ variances, float eps, int count, int each,
                                                 const BlockShape p) {
    __shared__ Moments moments[8];
    int f = blockIdx.x, first = blockIdx.y * each;
    unsigned area = p.pooled_rows * p.pooled_columns, columns = p.pooled_columns;
    unsigned total = min(each, p.images - first) * area;
    float v[HELD][4];
    auto at = [&](unsigned e) {
        unsigned image = e / area, in = e - image * area, row = in / columns, column = in - row * columns;
        return y + (((long long)(first + image) * p.filters + f) * p.rows + 2 * row) * p.columns + 2 * column;
    };
#pragma unroll
    for (int i = 0; i < HELD; ++i)
        if (threadIdx.x + i * 256 < total) window(v[i], at(threadIdx.x + i * 256), p.columns);
    Moments own = {0, 0, 0};
    for (int i = threadIdx.x; i < count; i += 256) {
        const float* part = parts + ((long long)f * count + i) * 3;
        own.join({part[0], part[1], part[2]});
    }
    own = of_warp(own);
    if (threadIdx.x % 32 == 0) moments[threadIdx.x / 32] = own;
    __syncthreads();
    own = moments[0];
#pragma unroll
    for (int i = 1; i < 8; ++i) own.join(moments[i]);
    float variance = own.m2 / own.count;
    if (threadIdx.x == 0 && blockIdx.y == 0) means[f] = own.mean, variances[f] = variance;
    float scale = (gamma ? to<float>(gamma[f]) : 1.0f) * rsqrtf(variance + eps);
    float shift = beta ? to<float>(beta[f]) : 0.0f;
    for (unsigned start = threadIdx.x; start < total; start += 256 * HELD)
#pragma unroll
        for (int i = 0; i < HELD; ++i) {
            unsigned e = start + i * 256;
            if (e >= total) return;
            if (start >= 256) window(v[i], at(e), p.columns);
            float most = 0;
#pragma unroll
            for (int k = 0; k < 4; ++k) most = max_nan(most, (v[i][k] - own.mean) * scale + shift);
            unsigned image = e / area;
            out[((long long)(first + image) * p.filters + f) * area + e - image * area] = to<T>(most);
        }
}

// Running statistics: the variance of a batch is that of a sample.
template <class P>
__global__ void __launch_bounds__(256) update(P* __restrict__ running_mean, P* __restrict__ running_var,
                                              const float* __restrict__ means, const float* __restrict__ variances,
                                              float momentum, float count, int filters) {
    int f = blockIdx.x * 256 + threadIdx.x;
    if (f >= filters) return;
    if (running_mean) running_mean[f] = to<P>((1 - momentum) * to<float>(running_mean[f]) + momentum * means[f]);
    if (running_var)
        running_var[f] =
            to<P>((1 - momentum) * to<float>(running_var[f]) + momentum * (variances[f] * count / (count - 1)));
}
