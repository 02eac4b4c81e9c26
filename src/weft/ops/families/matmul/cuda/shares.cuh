// Sums of a tile of which several blocks have a part.
#pragma once
#include <weft/block.cuh>
#include <weft/cluster.cuh>
#include "parts.cuh"

// Sums of SPLITS blocks of a cluster, of ACROSS times 8 columns for each of WARPS warps. Each block
// has a share of the columns, or of the rows too if there are more blocks; the others store theirs
// in its shared memory, `room`, where `arrived` counts the bytes. So no block waits for all others.
template <int SPLITS, int ACROSS, int WARPS>
struct ClusterShares {
    static constexpr int ALONG = SPLITS < ACROSS ? SPLITS : ACROSS, MINE = ACROSS / ALONG,
                         OWNERS = SPLITS / ALONG, OWN_WARPS = WARPS / OWNERS,
                         THREADS = OWN_WARPS * 32, BYTES = (SPLITS - 1) * MINE * THREADS * 16;
    static_assert(ACROSS % ALONG == 0 && SPLITS % ALONG == 0 && WARPS % OWNERS == 0,
                  "whole shares");

    // One thread calls it, before it publishes its barriers.
    static __device__ void init(Barrier& arrived) {
        arrived.init(1);
        arrived.arrive_expecting(BYTES);
    }
    // The first of its columns, in units of 8.
    static __device__ int first() { return cluster_block() / OWNERS * MINE; }

    // Gives the other blocks their shares, and adds those that they give, in the order of the
    // blocks. True if this warp has sums.
    static __device__ bool add(const float (&of)[ACROSS][4], float (&sums)[MINE][4], float4* room,
                               Barrier& arrived) {
        int me = cluster_block(), warp = threadIdx.x / 32, thread = threadIdx.x % THREADS;
        cluster_wait();  // the barriers of all blocks are there
        float own[MINE][4];
#pragma unroll
        for (int c = 0; c < ALONG; ++c) {
            int owner = c * OWNERS + warp / OWN_WARPS;
#pragma unroll
            for (int n = 0; n < MINE; ++n) {
                const float (&x)[4] = of[c * MINE + n];
                float4* to = room + ((me - (me > owner)) * MINE + n) * THREADS + thread;
                if (owner != me) store_to(owner, to, make_float4(x[0], x[1], x[2], x[3]), arrived);
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
                sums[n][0] += x.x, sums[n][1] += x.y, sums[n][2] += x.z, sums[n][3] += x.w;
            }
        }
        return true;
    }
};

// Parts of tiles that any blocks have: a block stores its part, and the last one to come adds those
// of all in their order. A block has two places: for the tile that another one began, and for the
// tile that it begins itself. THREADS threads have a tile, and call it together.
template <int THREADS, int COUNT>
struct Pieces {
    static constexpr int FOURS = COUNT / 4;
    float4* parts;
    int* counters;

    __device__ float4* place(int block, bool begins) const {
        return parts + (2 * block + begins) * FOURS * THREADS + threadIdx.x % THREADS;
    }
    // Adds the parts of tile `at`, of `blocks.y` blocks from `blocks.x` on. True for the block
    // whose threads have the sums then. `last` is a word of shared memory.
    __device__ bool join(float (&of)[COUNT], int at, int2 blocks, bool begins, int barrier,
                         int* last) const {
        store_part<THREADS>(place(blockIdx.x, begins), of);
        __threadfence();
        barrier_sync<THREADS>(barrier);
        if (threadIdx.x % THREADS == 0) {
            *last = atomicAdd(counters + at, 1) == blocks.y - 1;
            if (*last) counters[at] = 0;
        }
        barrier_sync<THREADS>(barrier);
        if (!*last) return false;
        __threadfence();
#pragma unroll
        for (int i = 0; i < COUNT; ++i) of[i] = 0;
        for (int i = 0; i < blocks.y; ++i) add_part<THREADS>(of, place(blocks.x + i, i == 0));
        return true;
    }
};
