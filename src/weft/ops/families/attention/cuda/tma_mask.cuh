// Masks in shared memory: boxes of 64 queries, or of one row that all queries share, which TMA
// copies ahead of the scores that they change.
#pragma once
#include <weft/pipeline.cuh>
#include <weft/wgmma.cuh>
#include "softmax.cuh"

// The mask of BN keys and 64 queries, in slabs of rows of 128 bytes.
template <class T, int MASK, int BN>
struct MaskTile {
    static constexpr int SIZE = Row<T, MASK>::SIZE, ACROSS = 128 / SIZE,
                         SLABS = (BN + ACROSS - 1) / ACROSS, BYTES = SLABS * slab_bytes(64);

    // Starts the copy for queries from `row` on and keys from `key` on, by one thread. What all
    // batches, heads or queries share is a dimension of one element.
    __device__ static void load(unsigned to, const TensorMap& map, Barrier& full, const Problem& p,
                                int batch, int head, int row, int key) {
        bool rows = p.mask.row;
        full.arrive_expecting(SLABS * slab_bytes(rows ? 64 : 1));
#pragma unroll
        for (int i = 0; i < SLABS; ++i)
            load_box(to + i * slab_bytes(64), map, full, key + i * ACROSS, rows ? row : 0,
                     p.mask.head ? head : 0, p.mask.batch ? batch : 0);
    }

    // Changes the scores of a warp, whose first row in the tile is `first`. What is added counts in
    // units of unscaled scores: `unit` of them are 1.
    __device__ static void apply(float (&s)[BN / 8][4], unsigned tile, bool rows, int first,
                                 float unit) {
        int lane = threadIdx.x % 32;
        if constexpr (MASK == ADDED) {
            // Four matrices: two of 8 columns, and two of 8 rows of each.
            int row = rows ? first + lane % 16 : 0;
#pragma unroll
            for (int n = 0; n < BN / 8; n += 2) {
                unsigned x[4];
                load_matrices_x4(
                    x, tile + n / 8 * slab_bytes(64) + swizzle<128>(row, n % 8 + lane / 16));
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    s[n + i / 4][i % 4] = fmaf(unpack<T>(x[i / 2], i), unit, s[n + i / 4][i % 4]);
            }
        } else {
#pragma unroll
            for (int n = 0; n < BN / 8; ++n)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    int row = rows ? first + half * 8 + lane / 4 : 0;
                    int at = (n * 8 + lane % 4 * 2) * SIZE;  // in a row of all slabs
                    unsigned from = tile + at / 128 * slab_bytes(64) +
                                    swizzle<128>(row, at % 128 / 16) + at % 16;
                    float &a = s[n][2 * half], &b = s[n][2 * half + 1];
                    if constexpr (MASK == BOOLEAN) {
                        unsigned seen = load_shared_two(from);
                        if (!(seen & 0xff)) a = NONE;
                        if (!(seen & 0xff00)) b = NONE;
                    } else {
                        float2 x = load_shared_floats(from);
                        a = fmaf(x.x, unit, a), b = fmaf(x.y, unit, b);
                    }
                }
        }
    }

private:
    __device__ static unsigned load_shared_two(unsigned from) {
        return *static_cast<const unsigned short*>(__cvta_shared_to_generic(from));
    }
    __device__ static float2 load_shared_floats(unsigned from) {
        return *static_cast<const float2*>(__cvta_shared_to_generic(from));
    }
};
