// The gradient of batch norm, ReLU and 2 x 2 max pooling, from the convolution's results. The
// pooling's choices are made again. Two kernels: sums of the gradient over each filter, then the
// gradient of the convolution. See fused.cuh.
#include "fused.cuh"

// Batch norm of one filter.
struct Filter {
    float mean, inverse, scale, shift;
    template <class P>
    __device__ Filter(const float* means, const float* variances, const P* gamma, const P* beta,
                      float eps, int f) {
        mean = means[f], inverse = rsqrtf(variances[f] + eps);
        scale = (gamma ? to<float>(gamma[f]) : 1.0f) * inverse;
        shift = beta ? to<float>(beta[f]) : 0.0f;
    }
    // Which of the four results the gradient goes to; -1 if ReLU stops it. Of equal ones the first,
    // of NaNs the last.
    __device__ int chosen(const float (&v)[4]) const {
        float most = (v[0] - mean) * scale + shift;
        int which = 0;
#pragma unroll
        for (int k = 1; k < 4; ++k) {
            float value = (v[k] - mean) * scale + shift;
            if (value > most || value != value) most = value, which = k;
        }
        return most <= 0 ? -1 : which;
    }
};

// The sum over a block of 256 threads, in all of them.
__device__ float2 of_block(float2 own, float2* shared) {
    own = {warp_sum(own.x), warp_sum(own.y)};
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = own;
    __syncthreads();
    own = shared[0];
#pragma unroll
    for (int i = 1; i < 8; ++i) own.x += shared[i].x, own.y += shared[i].y;
    return own;
}

// For each block, one filter and `each` images: the sums of the gradient, and of the gradient times
// the normalised result.
template <class T, class P>
__global__ void __launch_bounds__(256)
    sums(const T* __restrict__ dout, const T* __restrict__ y, const float* __restrict__ means,
         const float* __restrict__ variances, const P* __restrict__ gamma,
         const P* __restrict__ beta, float2* __restrict__ parts, float eps, int each,
         const BlockShape p) {
    __shared__ float2 shared[8];
    int f = blockIdx.x, first = blockIdx.y * each, images = min(each, p.images - first);
    Filter norm(means, variances, gamma, beta, eps, f);
    unsigned area = p.pooled_rows * p.pooled_columns, columns = p.pooled_columns;
    float2 own = {0, 0};
    for (unsigned e = threadIdx.x; e < images * area; e += 256) {
        unsigned image = e / area, in = e - image * area, row = in / columns,
                 column = in - row * columns;
        long long plane = (long long)(first + image) * p.filters + f;
        float v[4], g = to<float>(dout[plane * area + in]);
        window(v, y + (plane * p.rows + 2 * row) * p.columns + 2 * column, p.columns);
        int which = norm.chosen(v);
        float at = which == 0 ? v[0] : which == 1 ? v[1] : which == 2 ? v[2] : v[3];
        if (which >= 0) own.x += g, own.y += g * (at - norm.mean) * norm.inverse;
    }
    own = of_block(own, shared);
    if (threadIdx.x == 0) parts[(long long)blockIdx.y * p.filters + f] = own;
}

// The gradient of the convolution's results, and of gamma and beta.
template <class T, class P>
__global__ void __launch_bounds__(256)
    gradient(const T* __restrict__ dout, const T* __restrict__ y, const float* __restrict__ means,
             const float* __restrict__ variances, const P* __restrict__ gamma,
             const P* __restrict__ beta, const float2* __restrict__ parts, T* __restrict__ dy,
             P* __restrict__ dgamma, P* __restrict__ dbeta, float eps, int groups, int each,
             const BlockShape p) {
    __shared__ float2 shared[8];
    int f = blockIdx.x, first = blockIdx.y * each, images = min(each, p.images - first);
    Filter norm(means, variances, gamma, beta, eps, f);
    float2 all = {0, 0};
    for (int i = threadIdx.x; i < groups; i += 256) {
        float2 part = parts[(long long)i * p.filters + f];
        all.x += part.x, all.y += part.y;
    }
    all = of_block(all, shared);
    if (threadIdx.x == 0 && blockIdx.y == 0) dgamma[f] = to<P>(all.y), dbeta[f] = to<P>(all.x);
    float count = float(p.images) * p.rows * p.columns;
    float mean_of_gradient = all.x / count, slope = all.y / count * norm.inverse;
    // All results, also those of a last row or column that no window has.
    unsigned across = (p.columns + 1) / 2, down = (p.rows + 1) / 2, area = across * down;
    bool paired = p.columns % 2 == 0;
    for (unsigned e = threadIdx.x; e < images * area; e += 256) {
        unsigned image = e / area, in = e - image * area;
        int row = in / across, column = in - row * across;
        long long plane = (long long)(first + image) * p.filters + f,
                  at = (plane * p.rows + 2 * row) * p.columns + 2 * column;
        float v[4] = {}, g[4] = {};
        if (row < p.pooled_rows && column < p.pooled_columns) {
            window(v, y + at, p.columns);
            int which = norm.chosen(v);
            float from = to<float>(dout[(plane * p.pooled_rows + row) * p.pooled_columns + column]);
#pragma unroll
            for (int k = 0; k < 4; ++k) g[k] = which == k ? from : 0.0f;
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k)
                if (2 * row + k / 2 < p.rows && 2 * column + k % 2 < p.columns)
                    v[k] = to<float>(y[at + k / 2 * p.columns + k % 2]);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k)
            g[k] = norm.scale * (g[k] - mean_of_gradient - (v[k] - norm.mean) * slope);
#pragma unroll
        for (int k = 0; k < 4; k += 2) {
            if (2 * row + k / 2 >= p.rows) break;
            T* to_ = dy + at + k / 2 * p.columns;
            if (paired) {
                store(to_, Vector<T, 2>{to<T>(g[k]), to<T>(g[k + 1])});
            } else {
                to_[0] = to<T>(g[k]);
                if (2 * column + 1 < p.columns) to_[1] = to<T>(g[k + 1]);
            }
        }
    }
}
