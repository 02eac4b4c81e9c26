// Convolution on tensor cores as an implicit matrix product: the forward pass, and the backward
// pass to the data. The product has a row for each pixel of the target, a column for each target
// channel of a group, and a depth of taps times channels. Source and weights have the channels
// innermost, in whole 16-byte vectors (pack.cu): every copy is a vector.
#pragma once
#include <weft/problem.cuh>
#include "ring.cuh"
#include "write.cuh"

using namespace weft;

// BM pixels x BN channels for a tile, BYTES along the depth for a stage; a warp owns WM x WN.
// ROUND: the source is float that has not been rounded to tf32. Blocks are numbered by tile (x), by
// phase (y) and by group (z). STREAM_K: a block has p.each steps of all tiles in a row instead;
// copies for the next tile are under way while the results of one are written.
template <class T, int BM, int BN, int BYTES, int WM, int WN, int STAGES, bool BACK, bool STREAM_K,
          bool ROUND, class Epilogue>
__device__ void tensor_block(const T* x, const T* weight, Epilogue epilogue, T* y, float* parts,
                             int* counters, const Conv& p) {
    constexpr int THREADS = BM / WM * (BN / WN) * 32, VECTORS = BYTES / 16, EACH = 16 / sizeof(T);
    constexpr int ROWS = THREADS / VECTORS, A_COPIES = BM / ROWS, B_COPIES = BN / ROWS;
    constexpr int STAGE = (BM + BN) * BYTES, DOWN = WM / 16, ACROSS = WN / 8, PARTS = BYTES / 32;
    static_assert(BM % ROWS == 0 && BN % ROWS == 0 && WN % 16 == 0, "whole rounds of copies");
    extern __shared__ __align__(128) float memory[];
    int group = blockIdx.z, vector = threadIdx.x % VECTORS, row = threadIdx.x / VECTORS,
        per_tap = p.source_c / EACH;
    Window window = Window::of<BACK>(p, blockIdx.y);
    int pixels = window.pixels(p), taps = window.h.taps * window.w.taps,
        steps = (taps * per_tap + VECTORS - 1) / VECTORS;
    TileSteps<STREAM_K> work(p.tiles_m * p.tiles_n, steps, p.each);
    auto corner_of = [&](int number) {  // rows of this order are channels
        int2 at = tile_in_bands(number, p.tiles_m, p.tiles_n);
        return make_int2(at.y * BM, at.x * BN);
    };
    if (!STREAM_K && corner_of(work.tile).x >= pixels) return;  // phases differ in size
    x += group * p.source_c, weight += group * p.weight_group;

    // What this thread copies: one vector of some rows of both sides, from step `from` of a tile
    // on.
    int tap = (work.from * VECTORS + vector) / per_tap,
        at = work.from * VECTORS + vector - tap * per_tap;
    int columns = max(1, window.w.taps), r = tap / columns, s = tap - r * columns;  // of the tap
    int row_step = int(p.source[2] / EACH) * window.h.step,
        column_step = int(p.source[3] / EACH) * window.w.step;
    const T* filter;
    // The first tap of a row: its place in vectors, its row and its column. `filters` remain from
    // this thread's first on.
    int corner[A_COPIES], h[A_COPIES], w[A_COPIES], filters;
    auto enter = [&](int number) {
        int2 at_tile = corner_of(number);
#pragma unroll
        for (int i = 0; i < A_COPIES; ++i) {
            int index = at_tile.x + row + i * ROWS;
            if (p.flat) {  // without divisions
                h[i] = index < pixels ? 0 : -(1 << 30), w[i] = 0,
                corner[i] = index * int(p.source[3] / EACH);
                continue;
            }
            Pixel pixel(min(index, pixels - 1), window);
            h[i] = index < pixels ? pixel.i * window.h.mul + window.h.base : -(1 << 30);
            w[i] = pixel.j * window.w.mul + window.w.base;
            corner[i] =
                (pixel.n * p.source[0] + (pixel.i * window.h.mul + window.h.base) * p.source[2] +
                 w[i] * p.source[3]) /
                EACH;
        }
        filter = weight + (long long)(at_tile.y + row) * p.weight_target,
        filters = p.target_c - at_tile.y - row;
    };
    enter(work.tile);
    int copied = work.tile, to_copy = work.left,
        of_tile = steps - work.from;  // the tile of the next copies, and the steps that are left
    unsigned base = shared_address(memory);
    auto fetch = [&](int stage, int part) {
        unsigned into = base + stage * STAGE;
        int dh = r * window.h.step, dw = s * window.w.step,
            offset = r * row_step + s * column_step + at;
        bool there = to_copy > 0 && r < window.h.taps;
#pragma unroll
        for (int i = 0; i < A_COPIES; ++i) {
            if (i * PARTS / A_COPIES != part) continue;
            bool inside =
                there && unsigned(h[i] + dh) < p.source_h && unsigned(w[i] + dw) < p.source_w;
            copy_async<16>(into + swizzle<BYTES>(row + i * ROWS, vector),
                           x + (long long)(corner[i] + offset) * EACH, inside);
        }
        int number =
            (window.h.first + r * window.h.skip) * p.S + window.w.first + s * window.w.skip;
        const T* weights = filter + number * p.source_c + at * EACH;
#pragma unroll
        for (int i = 0; i < B_COPIES; ++i) {
            if (i * PARTS / B_COPIES != part) continue;
            copy_async<16>(into + BM * BYTES + swizzle<BYTES>(row + i * ROWS, vector),
                           weights + (long long)i * ROWS * p.weight_target,
                           there && i * ROWS < filters);
        }
        if (part < PARTS - 1) return;
        --to_copy, at += VECTORS;
        while (at >= per_tap) {
            at -= per_tap;
            if (++s == columns) s = 0, ++r;
        }
        if (STREAM_K && --of_tile == 0 && to_copy > 0) {
            of_tile = steps, tap = vector / per_tap, at = vector - tap * per_tap, r = tap / columns,
            s = tap - r * columns;
            enter(++copied);
        }
    };

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wm = warp / (BN / WN) * WM,
        wn = warp % (BN / WN) * WN;
    FragmentRows<BYTES, false> a_rows(wm);
    FragmentRows<BYTES, true> b_rows(wn);
    auto load = [&](unsigned (&a)[DOWN][4], unsigned (&b)[ACROSS / 2][4], int stage, int part) {
        unsigned here = base + stage * STAGE;
        a_rows.load(a, here, part);
        b_rows.load(b, here + BM * BYTES, part);
    };
    y += (long long)group * p.target_c * p.target[1];
    epilogue = epilogue.from(group * p.target_c);
    Ring<T, DOWN, ACROSS, PARTS, STAGES, ROUND, false, STREAM_K || WM != 64 || WN != 32> ring;
    auto write = [&](const float (&of)[DOWN][ACROSS][4], int tile) {
        float* mine = memory + (STREAM_K ? STAGES * STAGE / 4 : 0) + warp * writing<T, WM, WN>();
        long long* offsets = reinterpret_cast<long long*>(mine);
        int2 at_tile = corner_of(tile);
        __syncwarp();
        for (int c = lane; c < WM; c += 32) {
            int index = at_tile.x + wm + c;
            Pixel pixel(min(index, pixels - 1), window);
            offsets[c] = index < pixels
                             ? pixel.n * p.target[0] + window.h.out(pixel.i) * p.target[2] +
                                   window.w.out(pixel.j) * p.target[3]
                             : -1;
        }
        if (p.target[1] == 1)
            write_channels<WM, WN>(of, mine + 2 * WM, offsets, y, epilogue, p, at_tile.y + wn);
        else write_pixels<WM, WN>(of, mine + 2 * WM, offsets, y, epilogue, p, at_tile.y + wn);
    };
    work.template run<THREADS>(ring, fetch, load, parts, counters, write);
}
