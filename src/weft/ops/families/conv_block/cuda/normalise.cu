// The stages after a convolution: statistics, then batch norm, ReLU and 2 x 2 max pooling. See
// fused.cuh.
#include "fused.cuh"

__device__ Moments of_warp(Moments own) {
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        Moments other = shuffle_xor(own, d);
        // The same order in both lanes: they need the same bits.
        Moments low = threadIdx.x & d ? other : own, high = threadIdx.x & d ? own : other;
        low.join(high);
        own = low;
    }
    return own;
}

__device__ Moments of_block(Moments own) {
    __shared__ Moments moments[8];
    own = of_warp(own);
    if (threadIdx.x % 32 == 0) moments[threadIdx.x / 32] = own;
    __syncthreads();
    own = moments[0];
#pragma unroll
    for (int i = 1; i < 8; ++i) own.join(moments[i]);
    return own;
}

// Batch norm, ReLU and 2 x 2 max pooling by a block that has one filter and `each` images. What a
// thread reads first is under way while the statistics are not known.
template <class T, int WINDOWS>
struct Pooling {
    const BlockShape& p;
    const T* y;
    int f, first;
    unsigned area, columns, total;
    float v[WINDOWS][4];

    __device__ Pooling(const T* from, int each, const BlockShape& shape) : p(shape), y(from) {
        f = blockIdx.x, first = blockIdx.y * each;
        area = p.pooled_rows * p.pooled_columns, columns = p.pooled_columns;
        total = min(each, p.images - first) * area;
#pragma unroll
        for (int i = 0; i < WINDOWS; ++i)
            if (threadIdx.x + i * 256 < total) window(v[i], at(threadIdx.x + i * 256), p.columns);
    }
    __device__ const T* at(unsigned e) const {
        unsigned image = e / area, in = e - image * area, row = in / columns,
                 column = in - row * columns;
        return y + (((long long)(first + image) * p.filters + f) * p.rows + 2 * row) * p.columns +
               2 * column;
    }
    __device__ void write(T* out, float mean, float scale, float shift) {
        for (unsigned start = threadIdx.x; start < total; start += 256 * WINDOWS)
#pragma unroll
            for (int i = 0; i < WINDOWS; ++i) {
                unsigned e = start + i * 256;
                if (e >= total) return;
                if (start >= 256) window(v[i], at(e), p.columns);
                float most = 0;
#pragma unroll
                for (int k = 0; k < 4; ++k) most = max_nan(most, (v[i][k] - mean) * scale + shift);
                unsigned image = e / area;
                out[((long long)(first + image) * p.filters + f) * area + e - image * area] =
                    to<T>(most);
            }
    }
};

// Training, from `count` parts of the statistics.
template <class T, class P, int WINDOWS>
__global__ void __launch_bounds__(256)
    normalise(const T* __restrict__ y, const float* __restrict__ parts, const P* __restrict__ gamma,
              const P* __restrict__ beta, T* __restrict__ out, float* __restrict__ means,
              float* __restrict__ variances, float eps, int count, int each, const BlockShape p) {
    Pooling<T, WINDOWS> pooling(y, each, p);
    int f = blockIdx.x;
    Moments own = {0, 0, 0};
    for (int i = threadIdx.x; i < count; i += 256) {
        const float* part = parts + ((long long)f * count + i) * 3;
        own.join({part[0], part[1], part[2]});
    }
    own = of_block(own);
    float variance = own.m2 / own.count;
    if (threadIdx.x == 0 && blockIdx.y == 0) means[f] = own.mean, variances[f] = variance;
    pooling.write(out, own.mean, (gamma ? to<float>(gamma[f]) : 1.0f) * rsqrtf(variance + eps),
                  beta ? to<float>(beta[f]) : 0.0f);
}

// Evaluation, with given statistics.
template <class T, class P, int WINDOWS>
__global__ void __launch_bounds__(256)
    apply(const T* __restrict__ y, const P* __restrict__ means, const P* __restrict__ variances,
          const P* __restrict__ gamma, const P* __restrict__ beta, T* __restrict__ out, float eps,
          int each, const BlockShape p) {
    Pooling<T, WINDOWS> pooling(y, each, p);
    int f = blockIdx.x;
    pooling.write(out, to<float>(means[f]),
                  (gamma ? to<float>(gamma[f]) : 1.0f) * rsqrtf(to<float>(variances[f]) + eps),
                  beta ? to<float>(beta[f]) : 0.0f);
}

// Statistics of a convolution: parts[filter][group of `each` images]. Sums are of differences from
// one of the numbers, so that a mean that is large beside the variance takes no digits from it.
template <class T>
__global__ void __launch_bounds__(256)
    moments(const T* __restrict__ y, float* __restrict__ parts, int each, const BlockShape p) {
    int f = blockIdx.x, first = blockIdx.y * each;
    unsigned plane = p.rows * p.columns, total = min(each, p.images - first) * plane;
    long long apart = (long long)p.filters * plane;
    y += first * apart + (long long)f * plane;
    float pivot = to<float>(y[0]), sum = 0, squares = 0;
    int count = 0;
#pragma unroll 4
    for (unsigned e = threadIdx.x; e < total; e += 256, ++count) {
        unsigned image = e / plane;
        float d = to<float>(y[image * apart + (e - image * plane)]) - pivot;
        sum += d, squares += d * d;
    }
    float mean = count ? sum / count : 0, m2 = squares - sum * mean;
    Moments own = of_block({float(count), pivot + mean, m2 < 0 ? 0 : m2});  // NaN stays
    if (threadIdx.x > 0) return;
    float* part = parts + ((long long)f * gridDim.y + blockIdx.y) * 3;
    part[0] = own.count, part[1] = own.mean, part[2] = own.m2;
}
