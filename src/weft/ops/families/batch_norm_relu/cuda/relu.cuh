// The element-wise parts of batch norm with ReLU.
#pragma once
#include "../../norm/cuda/channels.cuh"

// relu((x - mean) * factor + b + residual) of a channel; NaN stays. Forward and backward compute
// it in the same order, so that they agree about its sign.
__device__ inline float before_relu(float x, float mean, float factor, float b) {
    return fmaf(x - mean, factor, b);
}

// A bit for each element of a tensor in memory order: whether its result is positive. A byte has
// those of 1 << shift elements.
struct Mask {
    const unsigned char* bytes;
    int shift;

    // The bits of V elements, a whole part of a byte's; HAS: there is a mask.
    template <bool HAS>
    __device__ unsigned get(long long at) const {
        return HAS ? bytes[at >> shift] >> (at & ((1 << shift) - 1)) : 0;
    }
};

// The parameters of a thread's channels: (x - mean) * factor + b.
template <int K>
struct Linear {
    float mean[K], factor[K], b[K];

    template <class Walk, class S, class W>
    __device__ Linear(const Walk& walk, const S* means, const S* vars, const W* ws, const W* bs,
                      float eps) {
        float w[K];
        load_channels(mean, walk, means, 0), load_channels(factor, walk, vars, 0);
        load_channels(w, walk, ws, 1), load_channels(b, walk, bs, 0);
#pragma unroll
        for (int k = 0; k < K; k++) factor[k] = rsqrtf(factor[k] + eps) * w[k];
    }
};

// The gradient before ReLU: that of the result, or 0. MASKED: the bits say where; else the sign of
// what ReLU was given does.
template <bool MASKED, class Walk, int V>
__device__ void cut_gradient(Vector<float, V>& g, const Vector<float, V>& x, unsigned bits,
                             const Linear<Walk::K>& a) {
#pragma unroll
    for (int j = 0; j < V; j++) {
        int k = Walk::FLAT ? j : 0;
        bool there;
        if constexpr (MASKED) there = bits >> j & 1;
        else there = !(before_relu(x[j], a.mean[k], a.factor[k], a.b[k]) <= 0);
        g[j] = there ? g[j] : 0;
    }
}

// What is added before ReLU: a part of the residual, or nothing.
struct Nothing {};

// STREAMED: it leaves the L2 cache to vectors that are read again.
template <bool RESIDUAL, bool STREAMED, int V, class T>
__device__ auto part_of(const T* residual, long long at) {
    if constexpr (RESIDUAL && STREAMED && sizeof(Vector<T, V>) == 16) {
        uint4 bits = __ldcs(reinterpret_cast<const uint4*>(residual + at));
        return *reinterpret_cast<Vector<T, V>*>(&bits);
    } else if constexpr (RESIDUAL) {
        return load<V>(residual + at);
    } else {
        return Nothing{};
    }
}
template <int V>
__device__ void add_part(Vector<float, V>&, Nothing) {}
template <int V, class T>
__device__ void add_part(Vector<float, V>& f, const Vector<T, V>& part) {
    Vector<float, V> more = to_floats(part);
#pragma unroll
    for (int j = 0; j < V; j++) f[j] += more[j];
}

// relu(f + residual); its bits go to the mask, if MASKED.
template <bool MASKED, int V, class Part>
__device__ void finish_vector(Vector<float, V>& f, const Part& residual, unsigned char* mask,
                              long long at) {
    add_part(f, residual);
    unsigned bits = 0;
#pragma unroll
    for (int j = 0; j < V; j++) {
        bits |= unsigned(!(f[j] <= 0)) << j;
        f[j] = f[j] <= 0 ? 0 : f[j];
    }
    if constexpr (MASKED) mask[at / V] = static_cast<unsigned char>(bits);
}
