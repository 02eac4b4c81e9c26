// Parts of attention in single precision: blocks of 16 x 16 threads, whose rows of 16 threads are halves of warps.
#pragma once
#include "softmax.cuh"

__device__ inline float half_warp_max(float x) {
#pragma unroll
    for (int i = 8; i; i /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, i));
    return x;
}
__device__ inline float half_warp_sum(float x) {
#pragma unroll
    for (int i = 8; i; i /= 2) x += __shfl_xor_sync(~0u, x, i);
    return x;
}

// Rows of floats; the padding puts 8 rows into different banks.
template <int ROWS, int HEAD, class At>
__device__ void fetch_floats(float* shared, int first, int rows, int depth, At at) {
    for (int i = threadIdx.x; i < ROWS * HEAD; i += 256) {
        int r = i / HEAD, c = i % HEAD;
        shared[r * (HEAD + 4) + c] = first + r < rows && c < depth ? at(first + r)[c] : 0;
    }
}

// s[i][j] += the product of row `down + 16 i` of a and row `across + 16 j` of b.
template <int HEAD, int DEEP, int BROAD>
__device__ void multiply_rows(float (&s)[DEEP][BROAD], const float* a, const float* b) {
    int across = threadIdx.x % 16, down = threadIdx.x / 16;
#pragma unroll 4
    for (int c = 0; c < HEAD; c += 4) {
        Vector<float, 4> left[DEEP], right[BROAD];
#pragma unroll
        for (int i = 0; i < DEEP; ++i) left[i] = load<4>(a + (down + 16 * i) * (HEAD + 4) + c);
#pragma unroll
        for (int j = 0; j < BROAD; ++j) right[j] = load<4>(b + (across + 16 * j) * (HEAD + 4) + c);
#pragma unroll
        for (int i = 0; i < DEEP; ++i)
#pragma unroll
            for (int j = 0; j < BROAD; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) s[i][j] += left[i][e] * right[j][e];
    }
}

// The columns of a thread in rows of HEAD: vectors that are 64 apart, or single columns that are 16 apart.
template <int HEAD>
struct Columns {
    static constexpr int OWN = HEAD / 16, V = OWN % 4 == 0 ? 4 : 1;
    static __device__ int column(int c) { return c / V * 16 * V + threadIdx.x % 16 * V + c % V; }
};

// sums[i] += weights(row down + 16 i, n) * row n of b, for n below COUNT; `step` and `across` are the strides of weights.
template <int HEAD, int COUNT, int DEEP>
__device__ void add_rows(float (&sums)[DEEP][HEAD / 16], const float* weights, int step, int across, const float* b) {
    constexpr int V = Columns<HEAD>::V;
#pragma unroll 4
    for (int n = 0; n < COUNT; ++n) {
        float weight[DEEP];
#pragma unroll
        for (int i = 0; i < DEEP; ++i) weight[i] = weights[(threadIdx.x / 16 + 16 * i) * step + n * across];
#pragma unroll
        for (int c = 0; c < HEAD / 16 / V; ++c) {
            Vector<float, V> x = load<V>(b + n * (HEAD + 4) + Columns<HEAD>::column(c * V));
#pragma unroll
            for (int i = 0; i < DEEP; ++i)
#pragma unroll
                for (int e = 0; e < V; ++e) sums[i][c * V + e] += weight[i] * x[e];
        }
    }
}
