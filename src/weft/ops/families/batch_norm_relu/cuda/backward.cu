// Gradients of batch norm in training with ReLU; norm/cuda/channel_sums.cuh has the formulas.
#include "../../norm/cuda/channel_sums.cuh"
#include "relu.cuh"

template <class T, class W, class Walk, bool MASKED>
__global__ void __launch_bounds__(256)
    sums(const T* dy, const T* x, const unsigned char* bits, const float* mean, const float* var,
         const W* w, const W* b, Sums* sums, W* dw, W* db, Sums* found, int* counters,
         ChannelShape s, int shift, float eps) {
    take_turn();
    Walk walk(s);
    constexpr int V = Walk::V, K = Walk::K;
    Linear<K> a(walk, mean, var, w, b, eps);
    Mask mask{bits, shift};
    Sums own[K];
    for_each_pair<IN_FLIGHT<T, V>>(
        walk, dy, x, [&](const Spot& at) { return mask.get<MASKED>(at.at); },
        [&](Vector<float, V>& g, const Vector<float, V>& v, const Spot&, unsigned there) {
            cut_gradient<MASKED, Walk>(g, v, there, a);
            add_pair<Walk>(own, g, v, a.mean);
        });
    put_sums(own, walk, var, sums, dw, db, found, counters, s, eps);
}

// dx; SECOND: the gradient of the residual, too.
template <class T, class W, class Walk, bool MASKED, bool SECOND>
__global__ void __launch_bounds__(256)
    gradient(const T* dy, const T* x, const unsigned char* bits, const float* mean,
             const float* var, const W* w, const W* b, const Sums* sums, T* dx, T* dresidual,
             ChannelShape s, int shift, float size, float eps) {
    take_turn();
    Walk walk(s);
    constexpr int V = Walk::V, K = Walk::K;
    Linear<K> a(walk, mean, var, w, b, eps);
    Mask mask{bits, shift};
    float scale[K], db[K], dw[K];
    load_channels(scale, walk, var, 0);
    for (int k = 0; k < K; k++) {
        Sums all = walk.there ? sums[walk.real(k)] : Sums{};
        db[k] = all.db / size, dw[k] = all.dw / size * rsqrtf(scale[k] + eps);
    }
    for_each_pair<IN_FLIGHT<T, V> / 2>(
        walk, dy, x, [&](const Spot& at) { return mask.get<MASKED>(at.at); },
        [&](Vector<float, V>& g, const Vector<float, V>& v, const Spot& at, unsigned there) {
            cut_gradient<MASKED, Walk>(g, v, there, a);
            if constexpr (SECOND) store(dresidual + at.at, from_floats<T>(g));
#pragma unroll
            for (int j = 0; j < V; j++) {
                int k = Walk::FLAT ? j : 0;
                g[j] = (g[j] - db[k] - (v[j] - a.mean[k]) * dw[k]) * a.factor[k];
            }
            store(dx + at.at, from_floats<T>(g));
        });
}
