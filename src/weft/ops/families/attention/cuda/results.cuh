// Stores of results from registers of warpgroups.
#pragma once
#include <weft/wgmma.cuh>
#include "mma.cuh"

// A 4 x 4 transpose in each quad of lanes: word i of lane q becomes word q of lane i.
__device__ inline void transpose_quads(unsigned (&x)[4]) {
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        bool high = threadIdx.x & step;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i & step) continue;
            unsigned got = shuffle_xor(high ? x[i] : x[i + step], step);
            if (high) x[i] = got;
            else x[i + step] = got;
        }
    }
}

// The results of a warp as 16-bit rows of a tile of 64, in slabs as wgmma and TMA take them; its
// first row is `first`.
template <class T, int WIDTH>
__device__ void results_to_tile(unsigned tile, const float (&o)[WIDTH][4], int first) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < WIDTH; n += 2) {
        unsigned x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            x[i] = pack<T>(o[n + i / 2][i % 2 * 2], o[n + i / 2][i % 2 * 2 + 1]);
        store_matrices_x4(
            tile + n / 8 * slab_bytes(64) + swizzle<128>(first + lane % 16, n % 8 + lane / 16), x);
    }
}

// Two rows of results per lane, 8 apart: as vectors of 16 bytes where `whole`, as single elements
// otherwise.
template <class T, int WIDTH, class At>
__device__ void store_results(const float (&o)[WIDTH][4], int first, int rows, int width,
                              bool whole, At at) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        int row = first + half * 8 + lane / 4;
        T* to_row = at(min(row, rows - 1));
#pragma unroll
        for (int n = 0; n < WIDTH; n += 4) {
            if (whole) {
                unsigned x[4] = {};
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    if (n + i < WIDTH) x[i] = pack<T>(o[n + i][2 * half], o[n + i][2 * half + 1]);
                transpose_quads(x);
                int c = (n + lane % 4) * 8;
                if (row < rows && c < width)
                    *reinterpret_cast<uint4*>(to_row + c) = make_uint4(x[0], x[1], x[2], x[3]);
            } else {
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    int c = (n + i / 2) * 8 + lane % 4 * 2 + i % 2;
                    if (n + i / 2 < WIDTH && row < rows && c < width)
                        to_row[c] = to<T>(o[n + i / 2][2 * half + i % 2]);
                }
            }
        }
    }
}
