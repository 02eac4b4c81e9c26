// Dropout inside fused kernels: an element's factor, as a function of its number.
#pragma once
#include <weft/convert.cuh>
#include <weft/philox.cuh>
#include <weft/problem.cuh>

using namespace weft;

// The numbers of dropout.cuh: elements are numbered in groups of G, and group g uses those of
// subsequence g % threads; `blocks` is threads / 256. A factor is `scale` where an element is kept,
// else 0.
template <int G>
struct Mask {
    PhiloxStart start;
    int blocks, magic, shift;  // of blocks; see weft/problem.cuh
    unsigned keep_below;
    float scale;

    __device__ float factor(unsigned bits) const { return bits < keep_below ? scale : 0.0f; }

    // Factors of elements e to e + N - 1; e is a multiple of N.
    template <int N>
    __device__ Vector<float, N> next(long long e) const {
        int block = int(e / (G * 256)), pass = quotient(block, magic, shift);
        unsigned subsequence = (block - pass * blocks) * 256 + int(e / G) % 256;
        unsigned long long call = start.call + pass * (G / 4ull) + (N < G ? e % G / 4 : 0);
        Vector<float, N> v;
#pragma unroll
        for (int q = 0; q < N / 4; q++) {
            uint4 r = philox(start.seed, subsequence, call + q);
            v[4 * q] = factor(r.x), v[4 * q + 1] = factor(r.y);
            v[4 * q + 2] = factor(r.z), v[4 * q + 3] = factor(r.w);
        }
        return v;
    }
    __device__ float one(long long e) const { return next<4>(e & ~3ll)[int(e & 3)]; }

    // The factors of V elements from e on, `step` apart. WHOLE: e is a multiple of V, which is one
    // of 4, and step is 1.
    template <int V, bool WHOLE>
    __device__ Vector<float, V> some(long long e, long long step = 1) const {
        constexpr int N = V < G ? V : G;
        Vector<float, V> v;
#pragma unroll
        for (int k = 0; k < V; k++) {
            if constexpr (!WHOLE) {
                v[k] = one(e + k * step);
            } else if (k % N == 0) {
                Vector<float, N> f = next<N>(e + k);
#pragma unroll
                for (int j = 0; j < N; j++) v[k + j] = f[j];
            }
        }
        return v;
    }
};
