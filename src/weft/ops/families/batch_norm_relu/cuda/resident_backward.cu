// Gradients of batch norm in training with a residual and ReLU, in one launch.
#include "../../norm/cuda/resident.cuh"
#include "relu.cuh"

// dw and db in the dtype of the weights where they are not null. `found` has parts x channels
// pairs. ALL: all stays on chip; SECOND: the gradient of
// the residual is wanted.
template <class T, class W, class Walk, Meeting MEETING, bool ALL, bool MASKED, bool SECOND>
__global__ void __launch_bounds__(Walk::THREADS, BLOCKS<Walk>)
    gradients(const T* dy, const T* x, const unsigned char* bits, const float* mean,
              const float* var, const W* w, const W* b, T* dx, T* dresidual, W* dw, W* db,
              Pair* found, int* counters, ChannelShape s, int shift, int kept, float size,
              float eps) {
    take_turn();
    constexpr int V = Walk::V, K = Walk::K;
    Walk walk(s);
    BlockChannels<Walk> own(s, walk);
    const T* const from[2] = {dy, x};
    Passes<T, Walk, 2, ALL> passes(from, walk, kept);
    Linear<K> a(walk, mean, var, w, b, eps);
    Mask mask{bits, shift};
    float my_var = own.mine ? var[own.channel] : 1;
    Pair sums[K];
    auto ahead = [&](const Spot& at) { return mask.get<MASKED>(at.at); };
    passes.first(ahead, [&](const Vector<T, V>(&v)[2], const Spot&, unsigned there) {
        Vector<float, V> g = to_floats(v[0]), f = to_floats(v[1]);
        cut_gradient<MASKED, Walk>(g, f, there, a);
#pragma unroll
        for (int j = 0; j < V; j++) {
            int k = Walk::FLAT ? j : 0;
            sums[k].a = fmaf(g[j], f[j] - a.mean[k], sums[k].a), sums[k].b += g[j];
        }
    });
    int ticket = 0;
    Pair all = own.template join_all<MEETING>(sums, s, found, counters, ticket);
    float scale = rsqrtf(my_var + eps);
    own.put_gradients(dw, db, all, scale);
    float shared[2][K];
    own.share({all.b / size, all.a * scale * scale / size}, shared);
    passes.second(ahead, [&](const Vector<T, V>(&v)[2], const Spot& at, unsigned there) {
        Vector<float, V> g = to_floats(v[0]), f = to_floats(v[1]);
        cut_gradient<MASKED, Walk>(g, f, there, a);
        if constexpr (SECOND) passes.put(dresidual, at, from_floats<T>(g));
#pragma unroll
        for (int j = 0; j < V; j++) {
            int k = Walk::FLAT ? j : 0;
            g[j] -= shared[0][k] + (f[j] - a.mean[k]) * shared[1][k];
            g[j] *= a.factor[k];
        }
        passes.put(dx, at, from_floats<T>(g));
    });
    leave<MEETING>(counters + walk.tile, s.parts, ticket);
}
