// Which tiles, and which parts of their K, a block of a pipelined product computes.
#pragma once
#include "problem.cuh"

// The tile of work number `at`.
struct Work {
    int row, column, batch;

    template <int BM, int BN>
    static __device__ Work number(int at, const Problem& p) {
        int tiles = p.tiles_m * p.tiles_n, batch = at / tiles;
        int2 tile =
            tile_in_bands<(BN >= 2 * BM       ? 16
                           : 4 * BN >= 3 * BM ? 12
                                              : 8)>(at - batch * tiles, p.tiles_m, p.tiles_n);
        return {tile.x * BM, tile.y * BN, batch};
    }
};

// The work of a block, one tile after another: `steps` steps of K of tile `at`, from step `begin`
// on; one is the K of a stage. SPLITS blocks of a cluster share the K of each tile.
template <int SPLITS>
struct Walk {
    int at, begin, steps, works;

    __device__ Walk(const Problem& p, int step) {
        int whole = ceil_div(p.K, step), part = SPLITS == 1 ? 0 : blockIdx.x % SPLITS;
        begin = whole * part / SPLITS, steps = whole * (part + 1) / SPLITS - begin;
        works = p.tiles_m * p.tiles_n * p.batch;
        at = int(blockIdx.x / SPLITS) - stride();
    }
    static __device__ int stride() { return gridDim.x / SPLITS; }

    // Goes to the next tile; false if there is none.
    __device__ bool next() { return (at += stride()) < works; }
};
