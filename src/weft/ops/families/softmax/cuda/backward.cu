// Gradients of softmax and log-softmax with respect to their input; softmax_backward.cuh has the
// formulas. All three tensors are contiguous. The shapes are those of forward.cu: rows that a group
// of threads holds in registers, longer rows, and dimensions that are not the last one.
#include <weft/block.cuh>
#include <weft/early_launch.cuh>
#include <weft/row.cuh>

#include "../../../core/cuda/column.cuh"
#include "softmax_backward.cuh"

using namespace weft;

template <bool LOG, class T, int V>
__device__ float add_terms(const Vector<T, V>& g, const Vector<T, V>& y, float sum) {
#pragma unroll
    for (int j = 0; j < V; j++) sum += term<LOG>(to<float>(g[j]), to<float>(y[j]));
    return sum;
}
template <bool LOG, class T, int V>
__device__ Vector<T, V> gradients(Vector<T, V> g, const Vector<T, V>& y, float sum) {
#pragma unroll
    for (int j = 0; j < V; j++) g[j] = to<T>(gradient<LOG>(to<float>(g[j]), to<float>(y[j]), sum));
    return g;
}

// G threads hold a row of g and of y: CACHED vectors of each in registers.
template <class T, int V, int G, int CACHED, bool LOG>
__global__ void __launch_bounds__(G <= 32 ? 128 : G)
    rows(const T* g, const T* y, T* d, long long count, int n) {
    take_turn();
    constexpr int BLOCK = G <= 32 ? 128 : G;  // a row of more than one warp has a block to itself
    long long row = blockIdx.x * (long long)(BLOCK / G) + threadIdx.x / G;
    bool there = row < count;
    int t = threadIdx.x % G;
    Row<T, V> r{int(row * n % V), there ? n : 0};
    Vector<T, V> vg[CACHED], vy[CACHED];
#pragma unroll
    for (int k = 0; k < CACHED; k++)
        vg[k] = r.get(g + row * n, k * G + t, 0), vy[k] = r.get(y + row * n, k * G + t, 0);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < CACHED; k++) sum = add_terms<LOG>(vg[k], vy[k], sum);
    sum = block_sum<G>(sum);
#pragma unroll
    for (int k = 0; k < CACHED; k++)
        r.put(d + row * n, k * G + t, gradients<LOG>(vg[k], vy[k], sum));
}

// Long rows, first pass: each block takes a part of a row, and stores the sum of its terms.
template <class T, int V, bool LOG>
__global__ void __launch_bounds__(256)
    parts_of_rows(const T* g, const T* y, float* sums, int n, int parts, int chunks) {
    long long row = blockIdx.x / parts;
    int part = blockIdx.x % parts;
    Row<T, V> r{int(row * n % V), n};
    int end = min((part + 1) * chunks, (n + r.lead + V - 1) / V);
    float sum = 0;
#pragma unroll 4
    for (int c = part * chunks + threadIdx.x; c < end; c += 256)
        sum = add_terms<LOG>(r.get(g + row * n, c, 0), r.get(y + row * n, c, 0), sum);
    sum = block_sum<256>(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Long rows, second pass: each block adds the sums of its row, and writes its part.
template <class T, int V, bool LOG>
__global__ void __launch_bounds__(256)
    finish_rows(const T* g, const T* y, T* d, const float* sums, int n, int parts, int chunks) {
    long long row = blockIdx.x / parts;
    int part = blockIdx.x % parts;
    float sum = 0;
    for (int i = threadIdx.x; i < parts; i += 256) sum += sums[row * parts + i];
    sum = block_sum<256>(sum);
    Row<T, V> r{int(row * n % V), n};
    int end = min((part + 1) * chunks, (n + r.lead + V - 1) / V);
#pragma unroll 4
    for (int c = part * chunks + threadIdx.x; c < end; c += 256) {
        Vector<T, V> vy = r.get(y + row * n, c, 0);
        r.put(d + row * n, c, gradients<LOG>(r.get(g + row * n, c, 0), vy, sum));
    }
}

// A column of which each thread has a sum.
struct Summed : Column {
    using Column::Column;

    __device__ float join(float sum, int width) const {
        __shared__ float part[256];
        part[threadIdx.x] = sum;
        __syncthreads();
        sum = 0;
        if (there)
            for (int i = 0; i < deep; i++) sum += part[i * width + w];
        return sum;
    }
    template <bool LOG, class T>
    __device__ float of(const T* g, const T* y, long long inner, int width) const {
        float sum = 0;
        if (there)
#pragma unroll 4
            for (int i = begin + t; i < end; i += deep)
                sum += term<LOG>(to<float>(g[i * inner]), to<float>(y[i * inner]));
        return join(sum, width);
    }
    template <bool LOG, class T>
    __device__ void write(const T* g, const T* y, T* d, long long inner, float sum) const {
        if (!there) return;
#pragma unroll 4
        for (int i = begin + t; i < end; i += deep)
            d[i * inner] =
                to<T>(gradient<LOG>(to<float>(g[i * inner]), to<float>(y[i * inner]), sum));
    }
};

template <class T, bool LOG>
__global__ void __launch_bounds__(256)
    columns(const T* g, const T* y, T* d, int n, long long inner, int width, long long tiles) {
    take_turn();
    Summed c(n, inner, width, tiles, 1, n);
    long long start = c.outer * n * inner + c.first + c.w;
    float sum = c.of<LOG>(g + start, y + start, inner, width);
    c.write<LOG>(g + start, y + start, d + start, inner, sum);
}

// The same in two passes, with several blocks for a column: sums[outer][part][inner].
template <class T, bool LOG>
__global__ void __launch_bounds__(256)
    parts_of_columns(const T* g, const T* y, float* sums, int n, long long inner, int width,
                     long long tiles, int parts, int each) {
    take_turn();
    Summed c(n, inner, width, tiles, parts, each);
    long long start = c.outer * n * inner + c.first + c.w;
    float sum = c.of<LOG>(g + start, y + start, inner, width);
    if (c.there && c.t == 0) sums[(c.outer * parts + c.part) * inner + c.first + c.w] = sum;
}
template <class T, bool LOG>
__global__ void __launch_bounds__(256)
    finish_columns(const T* g, const T* y, T* d, const float* sums, int n, long long inner,
                   int width, long long tiles, int parts, int each) {
    take_turn();
    Summed c(n, inner, width, tiles, parts, each);
    long long start = c.outer * n * inner + c.first + c.w;
    float sum = 0;
    if (c.there)
        for (int i = c.t; i < parts; i += c.deep)
            sum += sums[(c.outer * parts + i) * inner + c.first + c.w];
    c.write<LOG>(g + start, y + start, d + start, inner, c.join(sum, width));
}
