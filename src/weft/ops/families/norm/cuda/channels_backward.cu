// Gradients of batch norm; channel_sums.cuh has the formulas.
#include "channel_sums.cuh"

template <class T, class S, class W, class Walk>
__global__ void __launch_bounds__(256)
    sums(const T* dy, const T* x, const S* mean, const S* var, Sums* sums, W* dw, W* db,
         Sums* found, int* counters, ChannelShape s, float eps) {
    take_turn();
    Walk walk(s);
    constexpr int V = Walk::V, K = Walk::K;
    Affine<K> a(walk, mean, var, (const W*)nullptr, (const W*)nullptr, eps);
    Sums own[K];
    auto nothing = [](const Spot&) { return 0; };
    for_each_pair<IN_FLIGHT<T, V>>(walk, dy, x, nothing,
                                   [&](const Vector<float, V>& g, const Vector<float, V>& v,
                                       const Spot&, int) { add_pair<Walk>(own, g, v, a.mean); });
    put_sums(own, walk, var, sums, dw, db, found, counters, s, eps);
}

// dx; BATCH: mean and var are those of x.
template <class T, class S, class W, class Walk, bool BATCH>
__global__ void __launch_bounds__(256)
    gradient(const T* dy, const T* x, const S* mean, const S* var, const W* w, const Sums* sums,
             T* dx, ChannelShape s, float size, float eps) {
    take_turn();
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
