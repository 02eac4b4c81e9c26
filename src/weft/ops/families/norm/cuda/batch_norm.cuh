// Batch norm, forward: the mean and the variance of each channel, and the result that they give.
#pragma once
#include "channels.cuh"

// The mean and the variance of each channel. `found` has parts x channels moments.
template <class T, class Walk>
__device__ void channel_statistics(const T* x, float* mean, float* var, Moments* found,
                                   int* counters, const ChannelShape& s, float size) {
    Walk w(s);
    constexpr int V = Walk::V, K = Walk::K;
    constexpr bool FLAT = Walk::FLAT, RAGGED = Walk::RAGGED;
    float shift[K];
#pragma unroll
    for (int k = 0; k < K; k++) shift[k] = w.there ? shift_of(x + w.origin(w.real(k)), w.there) : 0;
    Moments own[K];
    constexpr int N = IN_FLIGHT<T, V>;
    Spot at[N];
    // Sums of 16-bit elements less this thread's first ones: deviations from these are as small as
    // those from the mean.
    constexpr bool SUMS = FLAT && sizeof(T) < 4;
    bool first = true;
    while (int n = w.take(at)) {
        Vector<T, V> v[N];
        load_all(v, x, at, n);
        if constexpr (SUMS) {
            if (first) {
                Vector<float, V> f = to_floats(v[0]);
#pragma unroll
                for (int k = 0; k < K; k++) shift[k] = f[k];
                first = false;
            }
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i >= n) continue;
            Vector<float, V> f = to_floats(v[i]);
            if constexpr (SUMS) {
                own[0].count += 1;
#pragma unroll
                for (int k = 0; k < K; k++) {
                    float value = f[k] - shift[k];
                    own[k].mean += value, own[k].squares += value * value;
                }
            } else if constexpr (FLAT) {
                float part = __fdividef(1, own[0].count + 1);
#pragma unroll
                for (int k = 0; k < K; k++) {
                    float value = f[k] - shift[k], difference = value - own[k].mean;
                    own[k].mean += difference * part;
                    own[k].squares += difference * (value - own[k].mean);
                    own[k].count += 1;
                }
            } else {
                float mean = 0, squares = 0;
                int size = RAGGED ? at[i].to - at[i].from : V;
                auto in = [&](int j) { return !RAGGED || (j >= at[i].from && j < at[i].to); };
                float share = RAGGED ? __fdividef(1, size) : 1.0f / V;
#pragma unroll
                for (int j = 0; j < V; j++)
                    if (in(j)) mean += (f[j] - shift[0]) * share;
#pragma unroll
                for (int j = 0; j < V; j++) {
                    float difference = f[j] - shift[0] - mean;
                    if (in(j)) squares += difference * difference;
                }
                if (size > 0) own[0].add(size, mean, squares);
            }
        }
    }
    if constexpr (SUMS) {
        float count = own[0].count;
#pragma unroll
        for (int k = 0; k < K; k++) {
            float mean = count > 0 ? own[k].mean / count : 0;
            own[k].squares = fmaxf(0, own[k].squares - own[k].mean * mean);
            own[k].mean = mean + shift[k], own[k].count = count;
        }
    }
    int count = w.join_parts(own, found, s.parts, counters);
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (k >= count) continue;
        int c = w.joined(k);
        if (!SUMS) own[k].mean += shift_of(x + w.origin(c), true);
        mean[c] = own[k].mean, var[c] = own[k].squares / size;
    }
}

// y = (x - mean) / sqrt(var + eps) * w + b for each channel.
template <class T, class S, class W, class Walk>
__device__ void channel_norm(const T* x, const S* mean, const S* var, const W* w, const W* b, T* y,
                             const ChannelShape& s, float eps) {
    Walk walk(s);
    constexpr int V = Walk::V;
    Affine<Walk::K> a(walk, mean, var, w, b, eps);
    constexpr int N = IN_FLIGHT<T, V>;
    Spot at[N];
    while (int n = walk.take(at)) {
        Vector<T, V> v[N];
        load_all(v, x, at, n);
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i >= n) continue;
            Vector<float, V> f = to_floats(v[i]);
#pragma unroll
            for (int j = 0; j < V; j++) {
                int k = Walk::FLAT ? j : 0;
                f[j] = fmaf((f[j] - a.mean[k]) * a.scale[k], a.w[k], a.b[k]);
            }
            store_part(y, at[i], from_floats<T>(f));
        }
    }
}
