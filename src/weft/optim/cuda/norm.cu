// The norm of all gradients of a table, and their scaling.
#include <weft/block.cuh>
#include <weft/convert.cuh>

#include "table.cuh"

using namespace weft;

// A sum in a fixed order, or the largest for the norm of order infinity (ORDER 0); NaN stays.
template <int ORDER>
struct Sum {
    static __device__ double join(double a, double b) {
        if (ORDER == 0) return a > b || a != a ? a : b;
        return a + b;
    }
    static __device__ float term(float x) { return ORDER == 2 ? x * x : fabsf(x); }
    static __device__ float add(float sum, float x) {
        if (ORDER == 0) return x > sum || x != x ? x : sum;
        return sum + x;
    }
    static __device__ double root(double sum) { return ORDER == 2 ? sqrt(sum) : sum; }

    // The result of a block, in thread 0.
    template <int THREADS>
    static __device__ double of_block(double sum) {
        __shared__ double parts[THREADS / 32];
        sum = warp_reduce(sum, join);
        __syncthreads();  // the memory may be in use by the call before
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int w = 1; w < THREADS / 32; w++) sum = join(sum, parts[w]);
        return sum;
    }
};

// Each block writes the sum of its chunk to `partials`. Launches for several dtypes share these;
// the last launch has their number in `total`, and its last block computes result[0], the norm
// divided by *divisor, and result[1], by which gradients are multiplied so that it is at most
// max_norm.
template <class T, int ORDER, int V, int THREADS, int CHUNK>
__global__ void __launch_bounds__(THREADS)
    norm(const long long* words, int tensors, int lists, int* counter, double* partials,
         long long first, long long total, double max_norm, const float* divisor, float* result) {
    using S = Sum<ORDER>;
    Table table{words, tensors, lists};
    Chunk chunk(table, blockIdx.x, CHUNK);
    const T* g = table.at<T>(0, chunk.tensor) + chunk.begin;
    long long done = reinterpret_cast<size_t>(g) % 16 == 0 ? chunk.count / V * V : 0;
    float sum = 0;
#pragma unroll 4
    for (long long i = threadIdx.x * V; i < done; i += THREADS * V) {
        Vector<T, V> v = load<V>(g + i);
#pragma unroll
        for (int k = 0; k < V; k++) sum = S::add(sum, S::term(to<float>(v[k])));
    }
    for (long long i = done + threadIdx.x; i < chunk.count; i += THREADS)
        sum = S::add(sum, S::term(to<float>(g[i])));
    double all = S::template of_block<THREADS>(sum);
    if (threadIdx.x == 0) partials[first + blockIdx.x] = all;
    if (total == 0 || !is_last_block(counter, gridDim.x)) return;
    all = 0;
    for (long long i = threadIdx.x; i < total; i += THREADS) all = S::join(all, partials[i]);
    all = S::root(S::template of_block<THREADS>(all)) / *divisor;
    if (threadIdx.x != 0) return;
    double factor = max_norm / (all + 1e-6);  // as in torch
    result[0] = static_cast<float>(all);
    result[1] = static_cast<float>(factor > 1.0 ? 1.0 : factor);
}

template <class T, int V, int THREADS, int CHUNK>
__global__ void __launch_bounds__(THREADS)
    scale(const long long* words, int tensors, int lists, const float* result) {
    float factor = result[1];
    if (factor == 1.0f) return;
    Table table{words, tensors, lists};
    Chunk chunk(table, blockIdx.x, CHUNK);
    T* g = table.at<T>(0, chunk.tensor) + chunk.begin;
    long long done = reinterpret_cast<size_t>(g) % 16 == 0 ? chunk.count / V * V : 0;
    for (long long i = threadIdx.x * V; i < done; i += THREADS * V) {
        Vector<T, V> v = load<V>(g + i);
#pragma unroll
        for (int k = 0; k < V; k++) v[k] = to<T>(to<float>(v[k]) * factor);
        store(g + i, v);
    }
    for (long long i = done + threadIdx.x; i < chunk.count; i += THREADS)
        g[i] = to<T>(to<float>(g[i]) * factor);
}
