// Ranks by a digit of 8 bits within a tile of WARPS warps with ITEMS elements per lane.
//
// Element j of a lane is number warp * 32 * ITEMS + j * 32 + lane of the tile: ranks keep that
// order among equal digits.
#pragma once
#include <weft/warp.cuh>

using namespace weft;

constexpr int BINS = 256;

template <int WARPS>
struct RankMemory {
    unsigned counts[WARPS][BINS], sums[BINS / 32];
};

// The sum of `value` over the threads before this one, among the first BINS threads.
// All threads take part; `sums` may be written again after the next barrier.
__device__ inline unsigned sum_before(unsigned value, unsigned* sums) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned up = inclusive_scan(value, Plus());
    if (lane == 31 && warp < BINS / 32) sums[warp] = up;
    __syncthreads();
    unsigned before = up - value;
#pragma unroll
    for (int w = 0; w < BINS / 32; w++)
        if (w < warp) before += sums[w];
    return before;
}

// Finds the rank of each element. Thread b < BINS gets the count of digit b, and in `start` the
// rank of its first element. The caller needs a barrier before the memory is used again.
template <int WARPS, int ITEMS>
__device__ unsigned rank_digits(const unsigned (&digit)[ITEMS], unsigned (&rank)[ITEMS],
                                RankMemory<WARPS>& memory, unsigned& start) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned* own = memory.counts[warp];
#pragma unroll
    for (int b = lane; b < BINS; b += 32) own[b] = 0;
    __syncwarp();
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        unsigned same = ~0u;  // the lanes with this digit
#pragma unroll
        for (int bit = 0; bit < 8; bit++) {
            bool set = digit[j] >> bit & 1;
            unsigned votes = __ballot_sync(~0u, set);
            same &= set ? votes : ~votes;
        }
        int leader = __ffs(same) - 1;
        unsigned before = 0;
        if (lane == leader) {
            before = own[digit[j]];
            own[digit[j]] = before + __popc(same);
        }
        rank[j] = shuffle(before, leader) + __popc(same & ((1u << lane) - 1));
        __syncwarp();  // the next element sees this count
    }
    __syncthreads();
    unsigned total = 0;
    if (threadIdx.x < BINS) {
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            unsigned count = memory.counts[w][threadIdx.x];
            memory.counts[w][threadIdx.x] = total;
            total += count;
        }
    }
    start = sum_before(total, memory.sums);
    if (threadIdx.x < BINS) {
#pragma unroll
        for (int w = 0; w < WARPS; w++) memory.counts[w][threadIdx.x] += start;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < ITEMS; j++) rank[j] += own[digit[j]];
    return total;
}
