// Weights of a row, in vectors that begin where the row's vectors do.
#pragma once
#include "row.cuh"

// V weights from element `at` of n on; `missing` where there are no weights, and outside of the row. Those of a RAGGED row
// may begin anywhere.
template <int V, bool RAGGED, class W>
__device__ Vector<W, V> weights(const W* w, int at, int n, float missing) {
    bool aligned = !RAGGED || reinterpret_cast<size_t>(w + at) % alignof(Vector<W, V>) == 0;
    if (w && at >= 0 && at + V <= n && aligned) return load<V>(w + at);
    Vector<W, V> v;
#pragma unroll
    for (int j = 0; j < V; j++) v[j] = RAGGED && w && at + j >= 0 && at + j < n ? w[at + j] : to<W>(missing);
    return v;
}
