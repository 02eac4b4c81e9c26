// Batch norm, a residual and ReLU, with statistics that are given.
#include "relu.cuh"

template <class T, class S, class W, class Walk, bool RESIDUAL, bool MASKED>
__global__ void __launch_bounds__(256)
    apply(const T* x, const T* residual, const S* mean, const S* var, const W* w, const W* b, T* y,
          unsigned char* mask, ChannelShape s, float eps) {
    take_turn();
    Walk walk(s);
    constexpr int V = Walk::V, N = IN_FLIGHT<T, V>;
    Linear<Walk::K> a(walk, mean, var, w, b, eps);
    Spot at[N];
    while (int n = walk.take(at)) {
        Vector<T, V> v[N], r[N];
        load_all(v, x, at, n);
        if constexpr (RESIDUAL) load_all(r, residual, at, n);
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i >= n) continue;
            Vector<float, V> f = to_floats(v[i]);
#pragma unroll
            for (int j = 0; j < V; j++) {
                int k = Walk::FLAT ? j : 0;
                f[j] = before_relu(f[j], a.mean[k], a.factor[k], a.b[k]);
            }
            if constexpr (RESIDUAL) finish_vector<MASKED>(f, r[i], mask, at[i].at);
            else finish_vector<false>(f, Nothing{}, mask, at[i].at);
            store(y + at[i].at, from_floats<T>(f));
        }
    }
}
