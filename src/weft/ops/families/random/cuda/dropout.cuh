// Dropout of the elements of a block: y = x * mask / (1 - p). The mask is a function of seed and
// offset, so the backward pass computes it again instead of reading it.
#pragma once
#include <weft/convert.cuh>
#include <weft/philox.cuh>

using namespace weft;

// Elements are numbered in groups of V = 16 bytes. Group g uses the numbers of subsequence g %
// threads, as a grid of `threads` threads would that takes a group each, again and again: torch's
// sequence. `blocks` is threads / 256. A thread has U groups, 256 apart. WHOLE: addresses are
// multiples of 16 bytes.
//
// keep_below: a number keeps its element where its bits are below this, which is where
// uniform(bits) < 1 - p.
template <int V, int U, bool WHOLE, class T>
__device__ void drop(const T* x, T* y, const PhiloxStart& start, long long n, unsigned blocks,
                     unsigned keep_below, float scale) {
    long long first = (static_cast<long long>(blockIdx.x) * U * 256 + threadIdx.x) * V;
    Vector<T, V> v[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
        long long i = first + u * 256ll * V;
        if (WHOLE && i + V <= n) {
            v[u] = load<V>(x + i);
        } else {
#pragma unroll
            for (int k = 0; k < V; k++)
                if (i + k < n) v[u][k] = x[i + k];
        }
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
        long long i = first + u * 256ll * V;
        if (i >= n) return;
        unsigned block = blockIdx.x * U + u, pass = block / blocks;
        unsigned subsequence = (block - pass * blocks) * 256 + threadIdx.x;
#pragma unroll
        for (int q = 0; q < V / 4; q++) {
            uint4 r = philox(start.seed, subsequence, start.call + pass * (V / 4ull) + q);
            unsigned bits[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
            for (int k = 0; k < 4; k++) {
                T& element = v[u][4 * q + k];
                element = to<T>(to<float>(element) * (bits[k] < keep_below ? scale : 0.0f));
            }
        }
        if (WHOLE && i + V <= n) {
            store(y + i, v[u]);
        } else {
#pragma unroll
            for (int k = 0; k < V; k++)
                if (i + k < n) y[i + k] = v[u][k];
        }
    }
}
