// Weights of a row's vectors.
#pragma once
#include <weft/row.cuh>

using namespace weft;

// Adds a zero that the compiler does not see through. Else it would keep the converted elements of
// a row in registers from one use to the next, which takes more of them than the row itself.
template <class T, int V>
__device__ void hide(Vector<T, V>& v, unsigned zero) {
    if constexpr (sizeof(v) >= 4) {
        auto* words = reinterpret_cast<unsigned*>(&v);
#pragma unroll
        for (int i = 0; i < int(sizeof(v) / 4); i++) words[i] += zero;
    }
}

// V weights from element `at` of n on; `missing` where there are no weights, and outside of the
// row. Those of a RAGGED row may begin anywhere.
template <int V, bool RAGGED, class W>
__device__ Vector<W, V> weights(const W* w, int at, int n, float missing) {
    bool aligned = !RAGGED || reinterpret_cast<size_t>(w + at) % alignof(Vector<W, V>) == 0;
    bool whole = w && at >= 0 && at + V <= n && aligned;
    if constexpr (!RAGGED) return load_if(whole, w + at, fill<V>(to<W>(missing)));
    if (whole) return load<V>(w + at);
    Vector<W, V> v;
#pragma unroll
    for (int j = 0; j < V; j++) v[j] = w && at + j >= 0 && at + j < n ? w[at + j] : to<W>(missing);
    return v;
}

// The weights of V elements from `at` on of a row of n, in which `inner` neighbours have one
// channel; those of `groups` rows follow each other. In rows that are not RAGGED, vectors have one
// channel.
template <int V, bool RAGGED, class W>
__device__ Vector<W, V> channel_weights(const W* w, long long row, int at, int n, int inner,
                                        int groups, float missing) {
    int channel = max(at, 0) / inner, next = (channel + 1) * inner;
    const W* own = w + int(row % groups) * (n / inner);
    Vector<W, V> v = fill<V>(to<W>(missing));
    if constexpr (!RAGGED) {
        if (w && at < n) v = fill<V>(own[channel]);
    } else if (w) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            if (at + j == next) channel++, next += inner;
            if (at + j >= 0 && at + j < n) v[j] = own[channel];
        }
    }
    return v;
}
