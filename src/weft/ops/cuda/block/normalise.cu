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

// A block has one filter and `each` images; `count` parts.
template <class T, class P>
__global__ void __launch_bounds__(256) normalise(const T* __restrict__ y, const float* __restrict__ parts,
                                                 const P* __restrict__ gamma, const P* __restrict__ beta,
                                                 T* __restrict__ out, float* __restrict__ means,
                                                 float* __restrict__ variances, float eps, int count, int each,
                                                 const BlockShape p) {
    __shared__ Moments moments[8];
    int f = blockIdx.x, first = blockIdx.y * each, images = min(each, p.images - first);
    Moments own = {0, 0, 0};
    for (int i = threadIdx.x; i < count; i += 256) {
        const float* part = parts + ((long long)i * p.filters + f) * 3;
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
    float shift = (beta ? to<float>(beta[f]) : 0.0f) - own.mean * scale;
    unsigned area = p.pooled_rows * p.pooled_columns, columns = p.pooled_columns;
    bool paired = p.columns % 2 == 0;
    for (unsigned e = threadIdx.x; e < images * area; e += 256) {
        unsigned image = e / area, in = e - image * area, row = in / columns, column = in - row * columns;
        long long plane = (long long)(first + image) * p.filters + f;
        const T* from = y + (plane * p.rows + 2 * row) * p.columns + 2 * column;
        Vector<T, 2> above, below;
        if (paired) {
            above = load<2>(from), below = load<2>(from + p.columns);
        } else {
            above = {from[0], from[1]}, below = {from[p.columns], from[p.columns + 1]};
        }
        float most = 0;
#pragma unroll
        for (int k = 0; k < 2; ++k)
            most = max_nan(most, max_nan(to<float>(above[k]) * scale + shift, to<float>(below[k]) * scale + shift));
        out[plane * area + in] = to<T>(most);
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
