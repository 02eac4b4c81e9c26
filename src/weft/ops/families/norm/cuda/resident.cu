// Batch norm in training, in one launch.
#include "resident.cuh"

// Elements of a channel in the vectors before vector `at` of it.
template <class Walk>
__device__ int elements_before(const Walk& walk, int at) {
    if constexpr (Walk::FLAT) return at;
    if constexpr (!Walk::RAGGED) return at * Walk::V;
    int plane = at / walk.inner, place = at % walk.inner;
    int start = int((plane * walk.channels + walk.channel) * walk.elements % Walk::V);
    return plane * walk.elements + min(max(place * Walk::V - start, 0), walk.elements);
}

// y = (x - mean) / sqrt(var + eps) * w + b with the mean and the variance of each channel of x.
// `found` has parts x channels pairs. ALONE: a block has all of its channels.
template <class T, class W, class Walk, bool ALONE>
__global__ void __launch_bounds__(Walk::THREADS, Walk::K == 1 ? 2 : 1)
    normalise(const T* x, const W* w, const W* b, T* y, float* mean, float* var, Pair* found,
              int* counters, ChannelShape s, long long elements, int kept, float size, float eps) {
    constexpr int V = Walk::V, K = Walk::K;
    Walk walk(s);
    BlockChannels<Walk> own(s, walk);
    const T* const from[1] = {x};
    Passes<T, Walk, 1> passes(from, walk, elements, kept);
    // Sums of differences from the first element of the part: these are as small as those from the
    // mean.
    int start = min(walk.part * s.each, s.count - 1);
    auto pivot_of = [&](int c) {
        if (Walk::FLAT) return to<float>(x[start * walk.channels + c]);
        long long plane = (start / s.inner * walk.channels + c);
        return to<float>(x[plane * (Walk::RAGGED ? s.plane : s.inner * V)]);
    };
    float pivot[K], my_pivot = own.mine ? pivot_of(own.channel) : 0;
#pragma unroll
    for (int k = 0; k < K; k++) pivot[k] = walk.there ? pivot_of(walk.channel + k) : 0;
    float my_w = own.mine && w ? to<float>(w[own.channel]) : 1;
    float my_b = own.mine && b ? to<float>(b[own.channel]) : 0;
    Pair sums[K];
    passes.first([&](const Vector<T, V>(&v)[1], const Spot& at) {
        Vector<float, V> f = to_floats(v[0]);
#pragma unroll
        for (int j = 0; j < V; j++) {
            int k = Walk::FLAT ? j : 0;
            float d = f[j] - pivot[k];
            if (Walk::RAGGED && (j < at.from || j >= at.to)) d = 0;
            sums[k].a += d, sums[k].b = fmaf(d, d, sums[k].b);
        }
    });
    Pair part = own.join(sums);
    auto count_of = [&](int p) {
        int from = elements_before(walk, min(p * s.each, s.count));
        return float(elements_before(walk, min((p + 1) * s.each, s.count)) - from);
    };
    // From sums of differences to the mean and squared deviations from it; NaN stays.
    auto finish = [](const Pair& sum, float count) {
        float mean = count > 0 ? sum.a / count : 0, squares = sum.b - sum.a * mean;
        return Pair{mean, squares < 0 ? 0 : squares};
    };
    Pair all = finish(part, count_of(walk.part));
    all.a += my_pivot;
    int ticket = 0;
    if constexpr (!ALONE) {
        if (own.mine) found[walk.part * walk.channels + own.channel] = all;
        ticket = meet_blocks(counters + walk.tile, s.parts);
        // Moments of parts are joined as differences from the mean of the first one.
        auto found_of = [&](int p) {
            int c = min(own.channel, s.channels - 1);
            auto* at = reinterpret_cast<const float2*>(found) + p * walk.channels + c;
            return __ldcg(at);
        };
        float zero = found_of(0).x, sum[3] = {};
        own.join_parts(sum, s.parts, [&](int p, float (&sum)[3]) {
            float2 one = found_of(p);
            float count = count_of(p), d = count > 0 ? one.x - zero : 0;
            sum[0] += count * d, sum[1] += count * d * d, sum[2] += one.y;
        });
        all = finish({sum[0], sum[1]}, size);
        all.a += zero, all.b += sum[2];
    }
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
        store_part(y, at, from_floats<T>(f));
    });
    if constexpr (!ALONE) leave_blocks(counters + walk.tile, s.parts, ticket);
}
