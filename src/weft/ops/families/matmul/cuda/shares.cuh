// Sums of a tile of which the blocks of a cluster have parts.
#pragma once
#include <weft/block.cuh>
#include <weft/cluster.cuh>

using namespace weft;

__device__ constexpr int common_divisor(int a, int b) { return b ? common_divisor(b, a % b) : a; }

// The bits of a sum as a float, in which shares travel, and the addition of such bits.
__device__ inline float bits_of_sum(float sum) { return sum; }
__device__ inline float bits_of_sum(int sum) { return __int_as_float(sum); }
__device__ inline void add_bits(float& sum, float bits) { sum += bits; }
__device__ inline void add_bits(int& sum, float bits) { sum += __float_as_int(bits); }

// Sums of SPLITS blocks of a cluster, of ACROSS times 8 columns for each of WARPS warps. Each block
// has a share of the columns, and of the rows if columns cannot be shared by so many; the others
// store theirs in its shared memory, where `arrived` counts the bytes. So no block waits for all.
template <int SPLITS, int ACROSS, int WARPS>
struct ClusterShares {
    static constexpr int ALONG = common_divisor(ACROSS, SPLITS), MINE = ACROSS / ALONG,
                         OWNERS = SPLITS / ALONG, OWN_WARPS = WARPS / OWNERS,
                         THREADS = OWN_WARPS * 32, BYTES = (SPLITS - 1) * MINE * THREADS * 16;
    static_assert(WARPS % OWNERS == 0, "whole shares");
    // Many bytes have no room beside the stages, so they replace these; then blocks wait for each
    // other before.
    static constexpr bool REPLACES = BYTES > 32 * 1024;

    Barrier arrived, drained;  // variables in shared memory

    // One thread calls it, before it publishes its barriers.
    __device__ void init() {
        arrived.init(1), drained.init(SPLITS - 1);
        arrived.arrive_expecting(BYTES);
    }
    // The first of its columns, in units of 8.
    static __device__ int first() { return cluster_block() / OWNERS * MINE; }

    // Gives the other blocks their shares, and adds those that they give, in the order of the
    // blocks. True if this warp has sums.
    template <class Sum>
    __device__ bool add(const Sum (&of)[ACROSS][4], Sum (&sums)[MINE][4], float4* room) {
        int me = cluster_block(), warp = threadIdx.x / 32, thread = threadIdx.x % THREADS;
        cluster_wait();  // the barriers of all blocks are there
        if constexpr (REPLACES) {
            barrier_sync<WARPS * 32>(1);  // all have read the last stage
            if (threadIdx.x < SPLITS && threadIdx.x != me) drained.arrive_at(threadIdx.x);
            drained.wait(0);
        }
        Sum own[MINE][4];
#pragma unroll
        for (int c = 0; c < ALONG; ++c) {
            int owner = c * OWNERS + warp / OWN_WARPS;
#pragma unroll
            for (int n = 0; n < MINE; ++n) {
                const Sum(&x)[4] = of[c * MINE + n];
                float4* to = room + ((me - (me > owner)) * MINE + n) * THREADS + thread;
                if (owner != me)
                    store_to(owner, to,
                             make_float4(bits_of_sum(x[0]), bits_of_sum(x[1]), bits_of_sum(x[2]),
                                         bits_of_sum(x[3])),
                             arrived);
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    if (c == me / OWNERS) own[n][i] = x[i];
            }
        }
        if (warp / OWN_WARPS != me % OWNERS) return false;
        arrived.wait(0);
#pragma unroll
        for (int n = 0; n < MINE; ++n) {
            sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0;
#pragma unroll
            for (int block = 0; block < SPLITS; ++block) {
                if (block == me) {
                    for (int i = 0; i < 4; ++i) sums[n][i] += own[n][i];
                    continue;
                }
                float4 x = room[((block - (block > me)) * MINE + n) * THREADS + thread];
                add_bits(sums[n][0], x.x), add_bits(sums[n][1], x.y);
                add_bits(sums[n][2], x.z), add_bits(sums[n][3], x.w);
            }
        }
        return true;
    }
};
