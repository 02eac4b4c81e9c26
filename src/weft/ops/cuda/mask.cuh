// Dropout inside fused kernels: an element's factor, as a function of its number.
#pragma once
#include "philox.cuh"
#include "vector.cuh"

// The numbers of dropout.cuh: elements are numbered in groups of G, and group g uses those of subsequence g % threads;
// `blocks` is threads / 256. A factor is `scale` where an element is kept, else 0.
template <int G>
struct Mask {
    Start start;
    unsigned blocks, keep_below;
    float scale;

    // Factors of elements e to e + 3; e is a multiple of 4.
    __device__ Vector<float, 4> four(long long e) const {
        long long group = e / G;
        unsigned block = unsigned(group / 256), pass = block / blocks;
        unsigned subsequence = (block - pass * blocks) * 256 + unsigned(group % 256);
        uint4 r = philox(start.seed, subsequence, start.call + pass * (G / 4ull) + (G > 4 ? e % G / 4 : 0));
        return {factor(r.x), factor(r.y), factor(r.z), factor(r.w)};
    }
    __device__ float factor(unsigned bits) const { return bits < keep_below ? scale : 0.0f; }
    __device__ float one(long long e) const { return four(e & ~3ll)[int(e & 3)]; }

    // Of V elements from e on, `step` apart. WHOLE: e is a multiple of 4 and of V, and step is 1.
    template <int V, bool WHOLE>
    __device__ Vector<float, V> some(long long e, long long step = 1) const {
        Vector<float, V> v;
#pragma unroll
        for (int k = 0; k < V; k++) {
            if constexpr (!WHOLE || V < 4) {
                v[k] = one(e + k * step);
            } else if (k % 4 == 0) {
                Vector<float, 4> f = four(e + k);
#pragma unroll
                for (int j = 0; j < 4; j++) v[k + j] = f[j];
            }
        }
        return v;
    }
};
