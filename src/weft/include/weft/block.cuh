// Reductions and barriers of a block, and words that blocks tell each other.
#pragma once
#include "warp.cuh"

namespace weft {

// Keeps the compiler from deducing T from an argument: another argument decides.
template <class T>
struct Given {
    using Type = T;
};

// Returns shared memory for a value of each warp; the same for all reductions of T.
template <class T, int WARPS>
__device__ inline T* warp_slots() {
    __shared__ T slots[WARPS];
    return slots;
}

// Returns the combination of the values of THREADS threads in each of them: of the block, which has
// so many, or of a group of neighbouring lanes for 32 or fewer. `identity` changes no value. All
// threads of the block call it.
template <int THREADS, class T, class Join>
__device__ inline T block_reduce(T v, typename Given<T>::Type identity, Join join) {
    static_assert(THREADS <= 32 || THREADS % 32 == 0, "whole warps");
    v = group_reduce<(THREADS < 32 ? THREADS : 32)>(v, join);
    if constexpr (THREADS > 32) {
        constexpr int WARPS = THREADS / 32;
        T* part = warp_slots<T, WARPS>();
        __syncthreads();  // the values of an earlier reduction have been read
        if (lane_index() == 0) part[warp_index()] = v;
        __syncthreads();
        if constexpr ((WARPS & (WARPS - 1)) == 0)  // as many lanes: fewer exchanges
            v = group_reduce<WARPS>(part[lane_index() % WARPS], join);
        else v = warp_reduce(lane_index() < WARPS ? part[lane_index()] : identity, join);
    }
    return v;
}

// Returns the sum of the values of all THREADS threads of the block, in each of them.
template <int THREADS, class T>
__device__ inline T block_sum(T v) {
    return block_reduce<THREADS>(v, T(), Plus());
}

// Returns the largest value of all THREADS threads of the block, or NaN if one is NaN.
template <int THREADS>
__device__ inline float block_max(float v) {
    return block_reduce<THREADS>(v, lowest(), Maximum());
}

// Is this the last of `blocks` blocks to come here? Its threads see what the others have written
// before. `counter` is 0 before the launch, and again after it. All threads of the block call it.
__device__ inline bool is_last_block(int* counter, int blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(counter, 1) == blocks - 1;
        if (last) atomicExch(counter, 0);  // a plain store would race with the others' additions
    }
    __syncthreads();
    __threadfence();
    return last;
}

// Waits at barrier `id` (1 to 15; __syncthreads uses 0) for THREADS threads, a multiple of 32.
// Whole warps call it.
template <int THREADS>
__device__ inline void barrier_sync(int id) {
    static_assert(THREADS % 32 == 0, "whole warps");
    asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(THREADS) : "memory");
}

// Arrives at barrier `id` without waiting; THREADS counts those that wait as well.
template <int THREADS>
__device__ inline void barrier_arrive(int id) {
    static_assert(THREADS % 32 == 0, "whole warps");
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(THREADS) : "memory");
}

// Loads a word that other blocks store by store_relaxed: a whole value, in no order with others.
__device__ inline unsigned long long load_relaxed(const unsigned long long* p) {
    unsigned long long word;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(p) : "memory");
    return word;
}
__device__ inline unsigned load_relaxed(const unsigned* p) {
    unsigned word;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(p) : "memory");
    return word;
}

// Stores a word that other blocks load by load_relaxed. `p` is an address of global memory.
__device__ inline void store_relaxed(unsigned long long* p, unsigned long long word) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(word) : "memory");
}
__device__ inline void store_relaxed(unsigned* p, unsigned word) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(word) : "memory");
}

}  // namespace weft
