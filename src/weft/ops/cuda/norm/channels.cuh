// Tensors with channels, in the order [batch][channel][inner], or FLAT: [row][channel].
#pragma once
#include "../last.cuh"
#include "../vector.cuh"
#include "moments.cuh"

// What blocks of 256 threads divide among themselves. Without FLAT a block has one channel and `each` vectors of its
// batch * inner. With FLAT it has `width` vectors of channels, with 256 / width threads for each, and `each` rows.
struct Shape {
    int channels;
    int inner;  // vectors from a channel to its next; FLAT: 1
    int count;  // vectors of a channel; FLAT: rows
    int width;  // a power of two; without FLAT: 1
    int parts, each;
};

// The vectors of a thread, some at a time, so that their loads are under way together:
//   while (int n = walk.take(at)) the first n of `at` are their places
template <int V, bool FLAT>
struct Walk {
    static constexpr int K = FLAT ? V : 1;  // channels of a vector
    int channel, tile, part, t, deep, i, end, plane, place, planes, places, inner;
    long long channels;
    bool there;

    __device__ explicit Walk(const Shape& s) : inner(s.inner), channels(s.channels) {
        int tiles = FLAT ? (s.channels / V + s.width - 1) / s.width : s.channels;
        // Blocks that run at the same time have neighbouring channels.
        tile = blockIdx.x % tiles, part = blockIdx.x / tiles;
        channel = FLAT ? (tile * s.width + int(threadIdx.x) % s.width) * V : tile;
        t = threadIdx.x / s.width, deep = 256 / s.width;
        there = channel < s.channels;
        i = part * s.each + t, end = there ? min(s.count, (part + 1) * s.each) : 0;
        if (!FLAT) {  // the vector's plane and place in it, without a division per step
            plane = i / inner, place = i % inner;
            planes = deep / inner, places = deep % inner;
        }
    }
    template <int N>
    __device__ int take(long long (&at)[N]) {
        int n = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (i >= end) continue;
            at[k] = FLAT ? i * channels + channel : ((plane * channels + channel) * inner + place) * V;
            i += deep, n++;
            if (!FLAT) {
                plane += planes, place += places;
                if (place >= inner) place -= inner, plane++;
            }
        }
        return n;
    }
    // Joins the values of all threads of a channel: the first one of them has the result.
    template <class Value>
    __device__ void join(Value (&own)[K]) const {
        __shared__ Value all[256][K];
        __syncthreads();
        for (int k = 0; k < K; k++) all[threadIdx.x][k] = own[k];
        for (int d = deep / 2; d > 0; d /= 2) {
            __syncthreads();
            if (t < d)
                for (int k = 0; k < K; k++) all[threadIdx.x][k].add(all[threadIdx.x + d * (256 / deep)][k]);
        }
        for (int k = 0; k < K; k++) own[k] = all[threadIdx.x][k];
    }
    // The values of a channel from all blocks that have a part of it, in the block that comes last; false in others.
    template <class Value>
    __device__ bool join_parts(Value (&own)[K], Value* found, int parts, int* counters) const {
        join(own);
        if (parts == 1) return t == 0 && there;
        if (t == 0 && there)
            for (int k = 0; k < K; k++) found[part * channels + channel + k] = own[k];
        if (!is_last(counters + tile, parts)) return false;
        for (int k = 0; k < K; k++) own[k] = Value{};
#pragma unroll 4
        for (int p = t; p < (there ? parts : 0); p += deep)
            for (int k = 0; k < K; k++) own[k].add(found[p * channels + channel + k]);
        join(own);
        return t == 0 && there;
    }
};

// Vectors of a thread whose loads are under way together: narrow ones must be more.
template <class T, int V>
constexpr int AHEAD = V * sizeof(T) <= 4 ? 8 : 4;

// Loads the first n vectors at some places.
template <int V, int N, class T>
__device__ void load_all(Vector<T, V> (&v)[N], const T* x, const long long (&at)[N], int n) {
#pragma unroll
    for (int k = 0; k < N; k++)
        if (k < n) v[k] = load<V>(x + at[k]);
}

// The parameters of a thread's channels.
template <int K>
struct Affine {
    float mean[K], scale[K], w[K], b[K];

    template <class S, class W>
    __device__ Affine(int channel, bool there, const S* means, const S* vars, const W* ws, const W* bs, float eps) {
        for (int k = 0; k < K; k++) {
            int c = there ? channel + k : 0;
            mean[k] = to<float>(means[c]), scale[k] = rsqrtf(to<float>(vars[c]) + eps);
            w[k] = ws ? to<float>(ws[c]) : 1, b[k] = bs ? to<float>(bs[c]) : 0;
        }
    }
};
