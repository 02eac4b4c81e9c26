// Batch norm in training, in one launch.
#include "resident_moments.cuh"

// y = (x - mean) / sqrt(var + eps) * w + b with the mean and the variance of each channel of x.
// `found` has parts x channels pairs. ALL: all stays on
// chip.
template <class T, class W, class Walk, Meeting MEETING, bool ALL>
__global__ void __launch_bounds__(Walk::THREADS, BLOCKS<Walk>)
    normalise(const T* x, const W* w, const W* b, T* y, float* mean, float* var, Pair* found,
              int* counters, ChannelShape s, int kept, float size, float eps) {
    take_turn();
    constexpr int V = Walk::V, K = Walk::K;
    Walk walk(s);
    BlockChannels<Walk> own(s, walk);
    const T* const from[1] = {x};
    Passes<T, Walk, 1, ALL> passes(from, walk, kept);
    float my_w = own.mine && w ? to<float>(w[own.channel]) : 1;
    float my_b = own.mine && b ? to<float>(b[own.channel]) : 0;
    int ticket = 0;
    Pair all = moments<MEETING>(x, passes, own, s, found, counters, size, ticket);
    if (own.mine && walk.part == 0) mean[own.channel] = all.a, var[own.channel] = all.b / size;
    float shared[3][K];
    own.share({all.a, rsqrtf(all.b / size + eps) * my_w, my_b}, shared);
    passes.second([&](const Vector<T, V>(&v)[1], const Spot& at) {
        Vector<float, V> f = to_floats(v[0]);
#pragma unroll
        for (int j = 0; j < V; j++) {
            int k = Walk::FLAT ? j : 0;
            f[j] = fmaf(f[j] - shared[0][k], shared[1][k], shared[2][k]);
        }
        passes.put(y, at, from_floats<T>(f));
    });
    leave<MEETING>(counters + walk.tile, s.parts, ticket);
}
