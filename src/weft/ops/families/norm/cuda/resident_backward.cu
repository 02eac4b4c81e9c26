// Gradients of batch norm in training, in one launch; channels_backward.cu has the formulas.
#include "resident.cuh"

// dw and db in the dtype of the weights where they are not null. `found` has parts x channels
// pairs. ALL: all stays on chip.
template <class T, class S, class W, class Walk, Meeting MEETING, bool ALL>
__global__ void __launch_bounds__(Walk::THREADS, BLOCKS<Walk>)
    gradients(const T* dy, const T* x, const S* mean, const S* var, const W* w, T* dx, W* dw, W* db,
              Pair* found, int* counters, ChannelShape s, int kept, float size, float eps) {
    take_turn();
    constexpr int V = Walk::V, K = Walk::K;
    Walk walk(s);
    BlockChannels<Walk> own(s, walk);
    const T* const from[2] = {dy, x};
    Passes<T, Walk, 2, ALL> passes(from, walk, kept);
    float means[K];
    load_channels(means, walk, mean, 0);
    float my_var = own.mine ? to<float>(var[own.channel]) : 1;
    float my_w = own.mine && w ? to<float>(w[own.channel]) : 1;
    Pair sums[K];
    passes.first([&](const Vector<T, V>(&v)[2], const Spot&) {
        Vector<float, V> g = to_floats(v[0]), f = to_floats(v[1]);
#pragma unroll
        for (int j = 0; j < V; j++) {
            int k = Walk::FLAT ? j : 0;
            sums[k].a = fmaf(g[j], f[j] - means[k], sums[k].a), sums[k].b += g[j];
        }
    });
    int ticket = 0;
    Pair all = own.template join_all<MEETING>(sums, s, found, counters, ticket);
    float scale = rsqrtf(my_var + eps);
    own.put_gradients(dw, db, all, scale);
    float shared[3][K];
    own.share({all.b / size, all.a * scale * scale / size, my_w * scale}, shared);
    passes.second([&](const Vector<T, V>(&v)[2], const Spot& at) {
        Vector<float, V> g = to_floats(v[0]), f = to_floats(v[1]);
#pragma unroll
        for (int j = 0; j < V; j++) {
            int k = Walk::FLAT ? j : 0;
            g[j] -= shared[0][k] + (f[j] - means[k]) * shared[1][k];
            g[j] *= shared[2][k];
        }
        passes.put(dx, at, from_floats<T>(g));
    });
    leave<MEETING>(counters + walk.tile, s.parts, ticket);
}
