// The mean and the variance of channels by blocks that keep their part of the tensor on chip.
#pragma once
#include "resident.cuh"

// The mean and the sum of squared deviations from it of each channel of x, in the thread that has
// the channel. `found` has parts x channels pairs. Blocks have met, with this ticket, unless each
// is ALONE.
template <Meeting MEETING, class T, class Walk, bool ALL>
__device__ Pair moments(const T* x, const Passes<T, Walk, 1, ALL>& passes,
                        const BlockChannels<Walk>& own, const ChannelShape& s, Pair* found,
                        int* counters, float size, int& ticket) {
    constexpr int V = Walk::V, K = Walk::K;
    const Walk& walk = own.walk;
    // Sums of differences from the median of three elements of the part: these are about as small
    // as those from the mean, even if one of the three is far from the others.
    int start = min(walk.part * s.each, s.count - 1), end = min(start + s.each, s.count) - 1;
    int three[3] = {start, (start + end) / 2, end};
    auto median = [](float a, float b, float c) {
        return fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
    };
    auto pivot_of = [&](int c) {
        float f[3];
#pragma unroll
        for (int i = 0; i < 3; i++) f[i] = to<float>(x[walk.element(three[i], c)]);
        return median(f[0], f[1], f[2]);
    };
    float pivot[K], my_pivot = own.mine ? pivot_of(own.channel) : 0;
    if constexpr (Walk::FOLDED) {  // neighbours in a vector have few channels
        float all[1][K];
        own.share({my_pivot}, all);
#pragma unroll
        for (int k = 0; k < K; k++) pivot[k] = all[0][k];
    }
    if constexpr (Walk::FLAT && !Walk::FOLDED) {
        Vector<float, V> f[3];
#pragma unroll
        for (int i = 0; i < 3; i++)
            f[i] = to_floats(load<V>(x + (walk.there ? walk.element(three[i], walk.channel) : 0)));
#pragma unroll
        for (int k = 0; k < K; k++) pivot[k] = median(f[0][k], f[1][k], f[2][k]);
    } else if constexpr (!Walk::FOLDED) {
#pragma unroll
        for (int k = 0; k < K; k++) pivot[k] = walk.there ? pivot_of(walk.real(k)) : 0;
    }
    Pair sums[K];
    passes.first([&](const Vector<T, V>(&v)[1], const Spot&) {
        Vector<float, V> f = to_floats(v[0]);
#pragma unroll
        for (int j = 0; j < V; j++) {
            int k = Walk::FLAT ? j : 0;
            float d = f[j] - pivot[k];
            sums[k].a += d, sums[k].b = fmaf(d, d, sums[k].b);
        }
    });
    Pair part = own.join(sums);
    auto count_of = [&](int p) {
        int vectors = min((p + 1) * s.each, s.count) - min(p * s.each, s.count);
        return float(vectors * walk.elements_each());
    };
    // From sums of differences to the mean and squared deviations from it; NaN stays.
    auto finish = [](const Pair& sum, float count) {
        float mean = count > 0 ? sum.a / count : 0, squares = sum.b - sum.a * mean;
        return Pair{mean, squares < 0 ? 0 : squares};
    };
    Pair all = finish(part, count_of(walk.part));
    all.a += my_pivot;
    if constexpr (MEETING != ALONE) {
        if (own.mine) found[walk.part * walk.channels + own.channel] = all;
        ticket = meet<MEETING>(counters + walk.tile, s.parts);
        // Moments of parts are joined as differences from the mean of the first one.
        auto* first = reinterpret_cast<const float2*>(found) + min(own.channel, s.channels - 1);
        float zero = __ldcg(first).x, sum[3] = {};
        own.join_parts(sum, s, found, [&](int p, float2 one, float (&sum)[3]) {
            float count = count_of(p), d = count > 0 ? one.x - zero : 0;
            sum[0] += count * d, sum[1] += count * d * d, sum[2] += one.y;
        });
        all = finish({sum[0], sum[1]}, size);
        all.a += zero, all.b += sum[2];
    }
    return all;
}
