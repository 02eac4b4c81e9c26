// Sums of a tile of which several blocks have a part.
#pragma once
#include <weft/block.cuh>
#include <weft/cluster.cuh>
#include "parts.cuh"

// The sums of all blocks of a cluster, of this block's share of the columns. `room` is a float4 for
// each thread and each 8 columns. Sums are added in the order of the blocks.
template <int SPLITS, int ACROSS, int THREADS>
__device__ void add_shares(const float (&of)[ACROSS][4], float (&sums)[ACROSS / SPLITS][4],
                           float4* room) {
    constexpr int MINE = ACROSS / SPLITS;
    barrier_sync<THREADS>(1);  // all have read the last stage, which the shares replace
#pragma unroll
    for (int n = 0; n < ACROSS; ++n)
        room[n * THREADS + threadIdx.x] = make_float4(of[n][0], of[n][1], of[n][2], of[n][3]);
    cluster_sync();
    int first = cluster_block() * MINE;
#pragma unroll
    for (int n = 0; n < MINE; ++n) {
        float4 share[SPLITS];
#pragma unroll
        for (int block = 0; block < SPLITS; ++block)
            share[block] = load_from(block, room + (first + n) * THREADS + threadIdx.x);
        sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0;
#pragma unroll
        for (int block = 0; block < SPLITS; ++block) {
            sums[n][0] += share[block].x, sums[n][1] += share[block].y;
            sums[n][2] += share[block].z, sums[n][3] += share[block].w;
        }
    }
    cluster_sync();  // no block ends while others read its shares
}

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
        for (int i = 0; i < blocks.y; ++i)
            add_part<THREADS>(of, place(blocks.x + i, i == 0));
        return true;
    }
};
