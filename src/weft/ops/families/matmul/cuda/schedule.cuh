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

// The pieces of work of a block, one after another: `steps` times 64 of K of the tile of work `at`,
// from step `begin` on. SPLITS blocks of a cluster share the K of each tile. SPLITS = 0: blocks
// have equal shares of the steps of the first p.splits tiles, wherever these begin and end, and
// then whole tiles, as stream-K does (Osama et al.).
template <int SPLITS>
struct Walk {
    int at, begin, steps;
    int whole, works, next_at, stride;  // steps of a tile; tiles; the next one
    int position, end;                  // of the steps of all shared tiles

    __device__ explicit Walk(const Problem& p) {
        whole = ceil_div(p.K, 64), works = p.tiles_m * p.tiles_n * p.batch;
        if constexpr (SPLITS == 0) {
            int total = p.splits * whole;
            position = share(total, blockIdx.x), end = share(total, blockIdx.x + 1);
            next_at = p.splits + blockIdx.x, stride = gridDim.x;
            begin = 0, steps = whole;
        } else {
            next_at = blockIdx.x / SPLITS, stride = gridDim.x / SPLITS;
            begin = whole * part() / SPLITS, steps = whole * (part() + 1) / SPLITS - begin;
        }
    }
    // The number of this block's part of K.
    static __device__ int part() {
        if constexpr (SPLITS <= 1) return 0;
        else return blockIdx.x % SPLITS;
    }
    // Goes to the next piece; false if there is none.
    __device__ bool next() {
        if constexpr (SPLITS == 0) {
            if (position < end) {
                at = position / whole, begin = position - at * whole;
                steps = min(whole - begin, end - position), position += steps;
                return true;
            }
            begin = 0, steps = whole;
        }
        at = next_at, next_at += stride;
        return at < works;
    }
    // The first step of a block's share, and the block that has a step; total * blocks < 2^31.
    static __device__ int share(int total, int block) { return total * block / int(gridDim.x); }
    static __device__ int block_of(int step, int total) {
        return ((step + 1) * int(gridDim.x) - 1) / total;
    }
    // The blocks that have a part of the tile: the first, and their number.
    __device__ int2 blocks_of_tile(const Problem& p) const {
        int total = p.splits * whole, first = block_of(at * whole, total);
        return make_int2(first, block_of(at * whole + whole - 1, total) - first + 1);
    }
};
