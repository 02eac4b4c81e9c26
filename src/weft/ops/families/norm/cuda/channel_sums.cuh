// Gradients of batch norm, with and without ReLU. With z = (x - mean) / sqrt(var + eps) and m
// elements in a channel
//   dw = sum(dy * z), db = sum(dy)
//   dx = w / sqrt(var + eps) * (dy - db / m - z * dw / m) where mean and var are those of x, else
//   without the sums
#pragma once
#include "channels.cuh"

struct Sums {
    float dw = 0, db = 0;
    __device__ void add(const Sums& other) { dw += other.dw, db += other.db; }
};

// Calls use(g, x, at, more) for the vectors of a thread: dy and x in float, their place, and what
// `ahead(at)` has loaded. N of each are under way together.
template <int N, class T, class Walk, class Ahead, class Use>
__device__ void for_each_pair(Walk& walk, const T* dy, const T* x, Ahead ahead, Use use) {
    constexpr int V = Walk::V;
    Spot at[N];
    while (int n = walk.take(at)) {
        Vector<T, V> g[N], v[N];
        load_all(g, dy, at, n);
        load_all(v, x, at, n);
        using More = decltype(ahead(at[0]));
        More more[N];
#pragma unroll
        for (int i = 0; i < N; i++) more[i] = i < n ? ahead(at[i]) : More{};
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i >= n) continue;
            Vector<float, V> fg = to_floats(g[i]), fv = to_floats(v[i]);
            use(fg, fv, at[i], more[i]);
        }
    }
}

// Adds a vector of dy and one of x to the sums of its channels.
template <class Walk>
__device__ void add_pair(Sums (&own)[Walk::K], const Vector<float, Walk::V>& g,
                         const Vector<float, Walk::V>& x, const float (&mean)[Walk::K]) {
#pragma unroll
    for (int j = 0; j < Walk::V; j++) {
        int k = Walk::FLAT ? j : 0;
        own[k].dw += g[j] * (x[j] - mean[k]);
        own[k].db += g[j];
    }
}

// Joins the sums of all threads: sums[channel] in float, and dw and db in the dtype of the weights
// where they are not null.
template <class Walk, class S, class W>
__device__ void put_sums(Sums (&own)[Walk::K], const Walk& walk, const S* var, Sums* sums, W* dw,
                         W* db, Sums* found, int* counters, const ChannelShape& s, float eps) {
    int count = walk.join_parts(own, found, s.parts, counters);
#pragma unroll
    for (int k = 0; k < Walk::K; k++) {
        if (k >= count) continue;
        int c = walk.joined(k);
        own[k].dw *= rsqrtf(to<float>(var[c]) + eps);
        sums[c] = own[k];
        if (dw) dw[c] = to<W>(own[k].dw);
        if (db) db[c] = to<W>(own[k].db);
    }
}
