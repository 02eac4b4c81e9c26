// Stores a tile of 16-bit results by a tensor map of C: a warp leaves them in shared memory, and
// the copy goes on beside the products of its next tile.
#pragma once
#include <weft/mma.cuh>
#include <weft/tma.cuh>
#include <weft/wgmma.cuh>
#include "store.cuh"

// 16 rows of COLUMNS columns for a warp, as boxes of 16 rows and WIDTH columns, whose 16-byte
// vectors are swizzled over the width of a row. The rows of C are contiguous and begin at multiples
// of 16 bytes.
template <class T, int COLUMNS, int ACTIVATION>
struct BoxStore {
    static constexpr int WIDTH = COLUMNS % 64 == 0 ? 64 : 32, BYTES = 16 * COLUMNS * 2;
    static_assert(COLUMNS % WIDTH == 0, "whole boxes");
    using Rounds = ResultStore<T, false, true, ACTIVATION, WIDTH>;

    // Stores `of` at row r0 and column c0 of matrix `batch` of C; `mine` is the address of BYTES
    // bytes of the warp, at a multiple of 1,024.
    template <class Bias>
    static __device__ void store(const float (&of)[COLUMNS / 8][4], unsigned mine,
                                 const TensorMap& C, const Bias& bias, const Problem& p, int r0,
                                 int c0, int batch) {
        int lane = lane_index(), row = lane % 16;
        if (lane == 0) wait_stores_read<0>();  // those of the tile before
        __syncwarp();
#pragma unroll
        for (int n = 0; n < COLUMNS / 8; n += 2) {
            unsigned words[4];
            Rounds::round(words, of[n], bias, p, r0, c0, n * 8);
            Rounds::round(words + 2, of[n + 1], bias, p, r0, c0, n * 8 + 8);
            unsigned box = mine + n * 8 / WIDTH * 16 * WIDTH * 2;
            store_matrices_x4(box + swizzle<WIDTH * 2>(row, n % (WIDTH / 8) + lane / 16), words);
        }
        publish_tiles();
        __syncwarp();
        if (lane == 0) {
#pragma unroll
            for (int c = 0; c < COLUMNS; c += WIDTH)
                if (r0 < p.M && c0 + c < p.N) store_box(C, mine + c * 32, c0 + c, r0, batch);
            commit_stores();
        }
    }
    // Waits until the copies have read the memory of the warp, which may end then.
    static __device__ void finish() {
        if (lane_index() == 0) wait_stores_read<0>();
    }
};
