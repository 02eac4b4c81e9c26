// Values that the lanes of a warp exchange, and combine.
//
// All 32 lanes of a warp call these functions together. A block is one-dimensional, or its rows
// have a multiple of 32 threads. `join(a, b)` is associative: Plus, Maximum, Minimum, a lambda.
#pragma once
#include "math.cuh"

namespace weft {

// Returns the number of this thread in its warp: 0 to 31.
__device__ inline int lane_index() { return threadIdx.x % 32; }

// Returns the number of this thread's warp in the block.
__device__ inline int warp_index() { return threadIdx.x / 32; }

// Types that the shuffle instructions of CUDA C++ take; others are exchanged word by word.
template <class T>
constexpr bool SHUFFLES = false;
template <>
constexpr bool SHUFFLES<int> = true;
template <>
constexpr bool SHUFFLES<unsigned> = true;
template <>
constexpr bool SHUFFLES<long long> = true;
template <>
constexpr bool SHUFFLES<unsigned long long> = true;
template <>
constexpr bool SHUFFLES<float> = true;
template <>
constexpr bool SHUFFLES<double> = true;

// Returns v with exchange(word) for each of its words; v is of a type that bytes may be copied of.
template <class T, class Exchange>
__device__ inline T exchange_words(T v, Exchange exchange) {
    constexpr int WORDS = (sizeof(T) + 3) / 4;
    unsigned word[WORDS] = {};
    memcpy(word, &v, sizeof(T));
#pragma unroll
    for (int i = 0; i < WORDS; ++i) word[i] = exchange(word[i]);
    memcpy(&v, word, sizeof(T));
    return v;
}

// Returns v of lane `lane` of this group of LANES lanes.
template <int LANES = 32, class T>
__device__ inline T shuffle(T v, int lane) {
    if constexpr (SHUFFLES<T>) return __shfl_sync(~0u, v, lane, LANES);
    else return exchange_words(v, [=](unsigned w) { return __shfl_sync(~0u, w, lane, LANES); });
}

// Returns v of the lane whose number differs by exclusive or with `mask`.
template <class T>
__device__ inline T shuffle_xor(T v, int mask) {
    if constexpr (SHUFFLES<T>) return __shfl_xor_sync(~0u, v, mask);
    else return exchange_words(v, [=](unsigned w) { return __shfl_xor_sync(~0u, w, mask); });
}

// Returns v of the lane `distance` before, in groups of LANES lanes; the first lanes keep theirs.
template <int LANES = 32, class T>
__device__ inline T shuffle_up(T v, int distance) {
    if constexpr (SHUFFLES<T>) return __shfl_up_sync(~0u, v, distance, LANES);
    else
        return exchange_words(v,
                              [=](unsigned w) { return __shfl_up_sync(~0u, w, distance, LANES); });
}

// Returns v of the lane `distance` behind, in groups of LANES lanes; the last lanes keep theirs.
template <int LANES = 32, class T>
__device__ inline T shuffle_down(T v, int distance) {
    if constexpr (SHUFFLES<T>) return __shfl_down_sync(~0u, v, distance, LANES);
    else
        return exchange_words(
            v, [=](unsigned w) { return __shfl_down_sync(~0u, w, distance, LANES); });
}

// Returns the combination of the values of each group of LANES neighbouring lanes, a power of two,
// in every lane. Its bits are the same in each if join(a, b) == join(b, a).
template <int LANES, class T, class Join>
__device__ inline T group_reduce(T v, Join join) {
    static_assert(LANES <= 32 && (LANES & (LANES - 1)) == 0, "a power of two up to 32");
#pragma unroll
    for (int d = LANES / 2; d > 0; d /= 2) v = join(v, shuffle_xor(v, d));
    return v;
}

// The same for a number of lanes that is known when the kernel runs.
template <class T, class Join>
__device__ inline T group_reduce(T v, int lanes, Join join) {
    for (int d = lanes / 2; d > 0; d /= 2) v = join(v, shuffle_xor(v, d));
    return v;
}

// Returns the same as group_reduce, in another order: neighbours are joined first.
template <int LANES, class T, class Join>
__device__ inline T neighbour_reduce(T v, Join join) {
    static_assert(LANES <= 32 && (LANES & (LANES - 1)) == 0, "a power of two up to 32");
#pragma unroll
    for (int d = 1; d < LANES; d *= 2) v = join(v, shuffle_xor(v, d));
    return v;
}

// Returns the combination of the values of the lanes whose numbers are equal modulo STRIDE.
template <int STRIDE, class T, class Join>
__device__ inline T strided_reduce(T v, Join join) {
    static_assert(STRIDE <= 32 && (STRIDE & (STRIDE - 1)) == 0, "a power of two up to 32");
#pragma unroll
    for (int d = STRIDE; d < 32; d *= 2) v = join(v, shuffle_xor(v, d));
    return v;
}

// Returns the combination of the values of all lanes, in every lane.
template <class T, class Join>
__device__ inline T warp_reduce(T v, Join join) {
    return group_reduce<32>(v, join);
}

// Returns the sum of the values of all lanes, in every lane.
template <class T>
__device__ inline T warp_sum(T v) {
    return warp_reduce(v, Plus());
}

// Returns the largest value of all lanes, or NaN if one is NaN, in every lane.
template <class T>
__device__ inline T warp_max(T v) {
    return warp_reduce(v, Maximum());
}

// Returns the smallest value of all lanes, or NaN if one is NaN, in every lane.
template <class T>
__device__ inline T warp_min(T v) {
    return warp_reduce(v, Minimum());
}

// Returns the combination of the values up to this lane, itself included, in groups of LANES lanes.
template <int LANES = 32, class T, class Join>
__device__ inline T inclusive_scan(T v, Join join) {
    int lane = lane_index() % LANES;
#pragma unroll
    for (int d = 1; d < LANES; d *= 2) {
        T before = shuffle_up<LANES>(v, d);
        if (lane >= d) v = join(before, v);
    }
    return v;
}

// Returns the same among the lanes whose numbers are equal modulo STRIDE.
template <int STRIDE, class T, class Join>
__device__ inline T strided_scan(T v, Join join) {
    static_assert(STRIDE <= 32 && (STRIDE & (STRIDE - 1)) == 0, "a power of two up to 32");
#pragma unroll
    for (int d = STRIDE; d < 32; d *= 2) {
        T before = shuffle_up(v, d);
        if (lane_index() >= d) v = join(before, v);
    }
    return v;
}

}  // namespace weft
