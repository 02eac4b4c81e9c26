// Gradients of batch norm. With z = (x - mean) / sqrt(var + eps) and m elements in a channel
//   dw = sum(dy * z), db = sum(dy)
//   dx = w / sqrt(var + eps) * (dy - db / m - z * dw / m) where mean and var are those of x, else
//   without the sums
#include "channels.cuh"

struct Sums {
    float dw = 0, db = 0;
    __device__ void add(const Sums& other) { dw += other.dw, db += other.db; }
};

// sums[channel] in float, and dw and db in the dtype of the weights where they are not null.
template <class T, class S, class W, class Walk>
__global__ void __launch_bounds__(256)
    sums(const T* dy, const T* x, const S* mean, const S* var, Sums* sums, W* dw, W* db,
         Sums* found, int* counters, ChannelShape s, float eps) {
    Walk w(s);
    constexpr int V = Walk::V, K = Walk::K;
    Affine<K> a(w, mean, var, (const W*)nullptr, (const W*)nullptr, eps);
    Sums own[K];
    constexpr int N = IN_FLIGHT<T, V>;
    Spot at[N];
    while (int n = w.take(at)) {
        Vector<T, V> g[N], v[N];
        load_all(g, dy, at, n);
        load_all(v, x, at, n);
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i >= n) continue;
            Vector<float, V> fg = to_floats(g[i]), fv = to_floats(v[i]);
#pragma unroll
            for (int j = 0; j < V; j++) {
                int k = Walk::FLAT ? j : 0;
                own[k].dw += fg[j] * (fv[j] - a.mean[k]);
                own[k].db += fg[j];
            }
        }
    }
    int count = w.join_parts(own, found, s.parts, counters);
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (k >= count) continue;
        int c = w.joined(k);
        own[k].dw *= rsqrtf(to<float>(var[c]) + eps);
        sums[c] = own[k];
        if (dw) dw[c] = to<W>(own[k].dw);
        if (db) db[c] = to<W>(own[k].db);
    }
}

// dx; BATCH: mean and var are those of x.
template <class T, class S, class W, class Walk, bool BATCH>
__global__ void __launch_bounds__(256)
    gradient(const T* dy, const T* x, const S* mean, const S* var, const W* w, const Sums* sums,
             T* dx, ChannelShape s, float size, float eps) {
    Walk walk(s);
    constexpr int V = Walk::V, K = Walk::K;
    Affine<K> a(walk, mean, var, w, (const W*)nullptr, eps);
    float db[K], dw[K];
    for (int k = 0; k < K; k++) {
        Sums all = BATCH && walk.there ? sums[walk.real(k)] : Sums{};
        db[k] = all.db / size, dw[k] = all.dw / size * a.scale[k];
    }
    constexpr int N = IN_FLIGHT<T, V> / 2;
    Spot at[N];
    while (int n = walk.take(at)) {
        Vector<T, V> g[N], v[N];
        load_all(g, dy, at, n);
        if constexpr (BATCH) load_all(v, x, at, n);
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i >= n) continue;
            Vector<float, V> fg = to_floats(g[i]), fv;
            if constexpr (BATCH) fv = to_floats(v[i]);
#pragma unroll
            for (int j = 0; j < V; j++) {
                int k = Walk::FLAT ? j : 0;
                if constexpr (BATCH) fg[j] -= db[k] + (fv[j] - a.mean[k]) * dw[k];
                fg[j] *= a.w[k] * a.scale[k];
            }
            store_part(dx, at[i], from_floats<T>(fg));
        }
    }
}
