// Tensors with channels, in the order [batch][channel][inner], or FLAT: [row][channel]. RAGGED: the
// planes of `inner` elements are no whole vectors; their first and last ones may reach out of the
// plane. FLAT and RAGGED: rows are no whole vectors, but several of them are. These are one row of
// the kernels, in whose columns the channels repeat.
#pragma once
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>

#include "moments.cuh"

using namespace weft;

// The work of blocks of THREADS threads, 256 for most kernels. Without FLAT a block has one channel
// and `each` vectors of its batch * inner. With FLAT it has `width` vectors of channels, with
// THREADS / width threads for each, and `each` rows. See channels.py.
STRUCT_CHANNELSHAPE

// The place of a vector, and the range of its elements that are in its plane.
struct Spot {
    long long at;
    int from, to;
};

// The vectors of a thread, some at a time, so that their loads are under way together:
//   while (int n = walk.take(at)) the first n of `at` are their places
template <int V_, bool FLAT_, bool RAGGED_ = false, int THREADS_ = 256>
struct Walk {
    static constexpr int V = V_, THREADS = THREADS_;
    static constexpr bool FLAT = FLAT_, RAGGED = RAGGED_, FOLDED = FLAT && RAGGED;
    static constexpr int K = FLAT ? V : 1;  // channels of a vector
    int channel, tile, part, t, deep, i, end, plane, place, planes, places, inner;
    int elements, last, left;  // FOLDED: the last row, and the elements that its vector has
    long long channels;
    bool there;

    __device__ explicit Walk(const ChannelShape& s)
        : inner(s.inner), elements(s.plane), channels(s.channels) {
        int tiles = FLAT ? (s.channels / V + s.width - 1) / s.width : s.channels;
        // Blocks that run at the same time have neighbouring channels. Those of a cluster share one
        // tile: its parts are the grid's y.
        tile = blockIdx.x % tiles, part = blockIdx.x / tiles + blockIdx.y;
        channel = FLAT ? (tile * s.width + int(threadIdx.x) % s.width) * V : tile;
        t = threadIdx.x / s.width, deep = THREADS / s.width;
        there = channel < s.channels;
        i = part * s.each + t, end = there ? min(s.count, (part + 1) * s.each) : 0;
        if (FOLDED) {
            last = s.count - 1, left = max(0, min(s.inner - channel, V));
            if (left == 0) end = min(end, last);
        }
        if (!FLAT) {  // the vector's plane and place in it, without a division per step
            plane = i / inner, place = i % inner;
            planes = deep / inner, places = deep % inner;
        }
    }
    template <int N>
    __device__ int take(Spot (&at)[N]) {
        int n = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (i >= end) continue;
            at[k] = spot(i, plane, place);
            i += deep, n++;
            if (!FLAT) {
                plane += planes, place += places;
                if (place >= inner) place -= inner, plane++;
            }
        }
        return n;
    }
    // The place of vector i of the channel, which is at `place` in plane `plane`.
    __device__ Spot spot(int i, int plane, int place) const {
        if constexpr (FOLDED) return {i * channels + channel, 0, i == last ? left : V};
        if constexpr (FLAT) return {i * channels + channel, 0, V};
        if constexpr (!RAGGED) return {((plane * channels + channel) * inner + place) * V, 0, V};
        long long start = (plane * channels + channel) * elements;
        // Elements of the plane before the vector are negative.
        int before = int(start % V) - place * V;
        return {start - before, max(before, 0), min(before + elements, V)};
    }
    // The vectors of this thread before the first call of take(), and the place of one of them.
    __device__ int vectors() const { return end > i ? (end - i + deep - 1) / deep : 0; }
    __device__ Spot spot(int n) const {
        int at = i + n * deep, plane = FLAT ? 0 : at / inner;
        return spot(at, plane, at - plane * inner);
    }
    // The place of an element of channel c among those that belong to i, and their number.
    __device__ long long element(int i, int c) const {
        return FLAT ? i * channels + c : (i / inner * channels + c) * inner * V;
    }
    __device__ int elements_each() const { return FLAT ? 1 : V; }
    // The channel of element k of a vector.
    __device__ int real(int k) const { return FOLDED ? (channel + k) % elements : channel + k; }
    // The channel of result k of join_parts, and the place of a channel's first element.
    __device__ int joined(int k) const { return channel + k; }
    __device__ long long origin(int c) const {
        return FLAT ? c : c * (RAGGED ? elements : inner * (long long)V);
    }

    // Joins the values of all threads of a channel: the first one of them has the result.
    template <class Value>
    __device__ void join(Value (&own)[K]) const {
        __shared__ Value all[K][THREADS];  // neighbours meet no bank twice: values have an odd
                                           // number of words, or two
        __syncthreads();
        for (int k = 0; k < K; k++) all[k][threadIdx.x] = own[k];
        for (int d = deep / 2; d > 0; d /= 2) {
            __syncthreads();
            if (t < d)
                for (int k = 0; k < K; k++)
                    all[k][threadIdx.x].add(all[k][threadIdx.x + d * (THREADS / deep)]);
        }
        for (int k = 0; k < K; k++) own[k] = all[k][threadIdx.x];
    }
    // The values of a channel from all blocks that have a part of it, in the block that comes last:
    // returns how many of `own` this thread has, and 0 in others.
    template <class Value>
    __device__ int join_parts(Value (&own)[K], Value* found, int parts, int* counters) const {
        join(own);
        if (parts == 1) return t == 0 && there ? K : 0;
        if (t == 0 && there)
            for (int k = 0; k < K; k++) found[part * channels + channel + k] = own[k];
        if (!is_last_block(counters + tile, parts)) return 0;
        for (int k = 0; k < K; k++) own[k] = Value{};
#pragma unroll 4
        for (int p = t; p < (there ? parts : 0); p += deep)
            for (int k = 0; k < K; k++) own[k].add(found[p * channels + channel + k]);
        join(own);
        return t == 0 && there ? K : 0;
    }
};

// The same for planes of few elements that are no whole vectors. Some neighbouring channels are: a
// block has these, at most 8, of `each` images, and `width` is their vectors. A thread has one of
// these vectors, whose elements keep their channels, in one image after another.
template <int V_, int THREADS_ = 256>
struct Planes {
    static constexpr int V = V_, K = V, THREADS = THREADS_;
    static constexpr bool FLAT = true, RAGGED = false, FOLDED = true;
    int channel, tile, part, t, vector, deep, i, end, plane, fold, width;
    int before, begins;  // channels before the vector, and its first element in its plane
    long long channels;
    bool there;

    __device__ explicit Planes(const ChannelShape& s)
        : plane(s.plane), fold(s.width * V / s.plane), width(s.width), channels(s.channels) {
        int tiles = s.channels / fold;
        tile = blockIdx.x % tiles, part = blockIdx.x / tiles + blockIdx.y, channel = tile * fold;
        t = threadIdx.x / width, vector = threadIdx.x % width, deep = THREADS / width;
        there = t < deep;
        i = part * s.each + t, end = there ? min(s.count, (part + 1) * s.each) : 0;
        before = vector * V / plane, begins = vector * V - before * plane;
    }
    template <int N>
    __device__ int take(Spot (&at)[N]) {
        int n = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (i >= end) continue;
            at[k] = spot(0);
            i += deep, n++;
        }
        return n;
    }
    __device__ int vectors() const { return end > i ? (end - i + deep - 1) / deep : 0; }
    __device__ Spot spot(int n) const {
        return {((i + n * deep) * channels + channel) * plane + vector * V, 0, V};
    }
    __device__ long long element(int i, int c) const { return (i * channels + c) * plane; }
    __device__ int elements_each() const { return plane; }
    __device__ int real(int k) const {
        if (plane >= V) return channel + before + (begins + k >= plane);
        return channel + before + (begins + k) / plane;
    }
    __device__ int joined(int) const { return channel + warp_index(); }
    __device__ long long origin(int c) const { return c * (long long)plane; }

    // A warp has one channel: its elements are those of several threads.
    template <class Value>
    __device__ Value reduced(Value v) const {
        return warp_reduce(v, [](Value a, const Value& b) {
            a.add(b);
            return a;
        });
    }
    template <class Value>
    __device__ int join_parts(Value (&own)[K], Value* found, int parts, int* counters) const {
        __shared__ Value all[K][THREADS];
        for (int k = 0; k < K; k++) all[k][threadIdx.x] = own[k];
        __syncthreads();
        bool mine = warp_index() < fold && lane_index() == 0;
        Value sum{};
        if (warp_index() < fold)
            for (int e = lane_index(); e < plane * deep; e += 32) {
                int at = warp_index() * plane + e % plane;
                sum.add(all[at % V][e / plane * width + at / V]);
            }
        own[0] = reduced(sum);
        if (parts == 1) return mine;
        if (mine) found[part * channels + joined(0)] = own[0];
        if (!is_last_block(counters + tile, parts)) return 0;
        sum = Value{};
        if (warp_index() < fold)
            for (int p = lane_index(); p < parts; p += 32) sum.add(found[p * channels + joined(0)]);
        own[0] = reduced(sum);
        return mine;
    }
};

// Vectors of a thread whose loads are under way together: narrow ones must be more.
template <class T, int V>
constexpr int IN_FLIGHT = V * sizeof(T) <= 4 ? 8 : 4;

// Loads the first n vectors at some places; elements outside of their plane are 0.
template <int V, int N, class T>
__device__ void load_all(Vector<T, V> (&v)[N], const T* x, const Spot (&at)[N], int n) {
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (k >= n) continue;
        if (at[k].from == 0 && at[k].to == V) {
            v[k] = load<V>(x + at[k].at);
        } else {
#pragma unroll
            for (int j = 0; j < V; j++)
                v[k][j] = j >= at[k].from && j < at[k].to ? x[at[k].at + j] : to<T>(0.0f);
        }
    }
}

// Stores those elements of a vector that are in its plane.
template <int V, class T>
__device__ void store_part(T* y, const Spot& at, const Vector<T, V>& v) {
    if (at.from == 0 && at.to == V) {
        store(y + at.at, v);
    } else {
#pragma unroll
        for (int j = 0; j < V; j++)
            if (j >= at.from && j < at.to) y[at.at + j] = v[j];
    }
}

// The numbers of a thread's channels, K of an array; `missing` without one. Neighbours are loaded
// as vectors: a block has few rows, for which single loads would take longer than their elements.
template <int K, class Walk, class S>
__device__ void load_channels(float (&own)[K], const Walk& walk, const S* numbers, float missing) {
    constexpr int EACH = sizeof(S) * K <= 16 ? K : 16 / sizeof(S);
    if (!numbers) {
#pragma unroll
        for (int k = 0; k < K; k++) own[k] = missing;
    } else if (!Walk::FOLDED && walk.there && reinterpret_cast<size_t>(numbers) % 16 == 0) {
#pragma unroll
        for (int k = 0; k < K; k += EACH) {
            Vector<float, EACH> v = to_floats(load<EACH>(numbers + walk.channel + k));
#pragma unroll
            for (int j = 0; j < EACH; j++) own[k + j] = v[j];
        }
    } else {
#pragma unroll
        for (int k = 0; k < K; k++) own[k] = to<float>(numbers[walk.there ? walk.real(k) : 0]);
    }
}

// The parameters of a thread's channels.
template <int K>
struct Affine {
    float mean[K], scale[K], w[K], b[K];

    template <class Walk, class S, class W>
    __device__ Affine(const Walk& walk, const S* means, const S* vars, const W* ws, const W* bs,
                      float eps) {
        load_channels(mean, walk, means, 0), load_channels(scale, walk, vars, 0);
        load_channels(w, walk, ws, 1), load_channels(b, walk, bs, 0);
#pragma unroll
        for (int k = 0; k < K; k++) scale[k] = rsqrtf(scale[k] + eps);
    }
};
