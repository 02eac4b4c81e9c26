// Convolution in single precision as a matrix product whose windows are gathered while tiles are
// loaded (implicit GEMM): the forward pass, and the backward pass to the data. The product has a
// row for each target channel of a group, a column for each pixel of the target, and a depth of
// source channels times taps.
#pragma once
#include <weft/problem.cuh>
#include "gather.cuh"

using namespace weft;

// Writes a tile. `offsets` has, for each column of the tile, the place of its pixel in the target,
// or -1.
template <class T>
__device__ void write_tile(const T& tile, float* memory, const long long* offsets, float* y,
                           const float* bias, const Conv& p, int m0) {
    if (p.wide) {
        tile.each([&](int row, int column, const float* v) {
            int m = m0 + row;
            long long at = offsets[column];
            if (m >= p.target_c || at < 0) return;
            float b = bias ? bias[m] : 0;
            *reinterpret_cast<float4*>(y + at + m * p.target[1]) =
                make_float4(v[0] + b, v[1] + b, v[2] + b, v[3] + b);
        });
        return;
    }
    // A warp transposes its results in shared memory, so that lanes store neighbours.
    float* mine = memory + threadIdx.x / 32 * 128;
    int lane = threadIdx.x % 32, corner_row = tile.row - tile.down() * 4,
        corner_column = tile.column - tile.across() * 4;
    tile.each([&](int row, int column, const float* v) {
        *reinterpret_cast<float4*>(mine + (tile.down() * T::LN + tile.across()) * 4) =
            make_float4(v[0], v[1], v[2], v[3]);
        __syncwarp();
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            int e = q * 32 + lane, m = m0 + row - tile.row + corner_row + e / (T::LN * 4) * 4;
            long long at = offsets[column - tile.column + corner_column + e % (T::LN * 4)];
            if (m < p.target_c && at >= 0) y[at + m * p.target[1]] = mine[e] + (bias ? bias[m] : 0);
        }
        __syncwarp();
    });
}

// Blocks are numbered by tile, then by part of the depth (x), by phase (y) and by group (z).
template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, bool BACK,
          bool MASKED, bool SPLIT>
__device__ void implicit_block(const float* x, const float* weight, const float* bias, float* y,
                               float* parts, int* counters, const Conv& p) {
    constexpr int THREADS = BM / WM * (BN / WN) * 32;
    using Table = Depths<BK, STAGES, MASKED>;
    using A = Weights<BM, BK, THREADS, Table>;
    using B = Windows<BN, BK, THREADS, BACK, MASKED, Table>;
    using T = Tile<BM, BN, BK, WM, WN, TM, TN, STAGES, A, B>;
    extern __shared__ __align__(16) float memory[];
    __shared__ Table depths;
    __shared__ Window window;
    int tiles = p.tiles_m * p.tiles_n, split = blockIdx.x / tiles, number = blockIdx.x % tiles,
        group = blockIdx.z;
    int2 at = tile_in_bands(number, p.tiles_m, p.tiles_n);
    int m0 = at.x * BM, n0 = at.y * BN;
    Window mine = Window::of<BACK>(p, blockIdx.y);
    if (n0 >= mine.pixels(p)) return;  // phases differ in size
    int depth = p.source_c * mine.h.taps * mine.w.taps;
    int k0 = SPLIT ? min(depth, split * p.each) : 0, k1 = SPLIT ? min(depth, k0 + p.each) : depth;
    if (threadIdx.x == 0) window = mine;
    depths.start(mine, k0);
    __syncthreads();
    for (int s = 0; s < STAGES; ++s) depths.fill(s, p, window, k1);
    __syncthreads();
    T tile;
    float *as = memory, *bs = memory + STAGES * A::SIZE;
    tile.run(A(weight + group * p.weight_group, as, depths, p, m0),
             B(x + group * p.source_c * p.source[1], bs, depths, p, window, n0, k1), as, bs, k0,
             k1);
    if constexpr (SPLIT) {
        long long slot = (long long)(group * gridDim.y + blockIdx.y) * tiles + number;
        if (!tile.joined(parts, counters, slot, split, p.splits)) return;
    }
    __syncthreads();
    long long* offsets = reinterpret_cast<long long*>(memory);
    for (int c = threadIdx.x; c < BN; c += THREADS) {
        Pixel pixel(n0 + c, window);
        offsets[c] = n0 + c < window.pixels(p)
                         ? pixel.n * p.target[0] + window.h.out(pixel.i) * p.target[2] +
                               window.w.out(pixel.j) * p.target[3]
                         : -1;
    }
    __syncthreads();
    y += (long long)group * p.target_c * p.target[1];
    if (bias) bias += group * p.target_c;
    write_tile(tile, memory + 2 * BN, offsets, y, bias, p, m0);
}
