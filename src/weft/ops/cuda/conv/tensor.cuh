// Convolution on tensor cores as an implicit matrix product: the forward pass, and the backward pass to the data. The product
// has a row for each pixel of the target, a column for each target channel of a group, and a depth of taps times channels.
// Source and weights have the channels innermost, in whole 16-byte vectors (pack.cu): every copy is a vector.
#pragma once
#include "mma.cuh"
#include "window.cuh"
#include "../gemm.cuh"
#include "../problem.cuh"
#include "../vector.cuh"

// Four or eight results that are neighbours in the target and in `from`.
template <class Out>
__device__ void write_vector(Out* y, const float* from, float bias) {
    constexpr int EACH = 16 / sizeof(Out);
    Vector<Out, EACH> v;
#pragma unroll
    for (int j = 0; j < EACH; j += 4) {
        float4 four = *reinterpret_cast<const float4*>(from + j);
        v[j] = to<Out>(four.x + bias), v[j + 1] = to<Out>(four.y + bias);
        v[j + 2] = to<Out>(four.z + bias), v[j + 3] = to<Out>(four.w + bias);
    }
    store(y, v);
}

// Writes the results of a warp: WM pixels x WN channels, through `memory` of the warp. `offsets` has the places of its pixels in
// the target, or -1. Lanes write neighbours: pixels, or channels where these are innermost.
template <int WM, int WN, class Out>
__device__ void write_pixels(const float (&of)[WM / 16][WN / 8][4], float* memory, const long long* offsets, Out* y,
                             const Out* bias, const Conv& p, int channel) {
    constexpr int PITCH = WM + 8, EACH = 16 / sizeof(Out);
    Out* mine = reinterpret_cast<Out*>(memory);
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < WN / 8; ++n) {
        __syncwarp();
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            int c = channel + n * 8 + t * 2 + e;
            float add = bias && c < p.target_c ? to<float>(bias[c]) : 0;
#pragma unroll
            for (int i = 0; i < WM / 8; ++i) mine[(t * 2 + e) * PITCH + i * 8 + g] = to<Out>(of[i / 2][n][i % 2 * 2 + e] + add);
        }
        __syncwarp();
        if (p.wide) {
#pragma unroll
            for (int e = lane; e < 8 * WM / EACH; e += 32) {
                int row = e / (WM / EACH), column = e % (WM / EACH) * EACH, c = channel + n * 8 + row;
                long long at = offsets[column];
                if (at >= 0 && c < p.target_c) store(y + at + c * p.target[1], load<EACH>(mine + row * PITCH + column));
            }
        } else {
#pragma unroll
            for (int e = lane; e < 8 * WM; e += 32) {
                int c = channel + n * 8 + e / WM;
                long long at = offsets[e % WM];
                if (at >= 0 && c < p.target_c) y[at + c * p.target[1]] = mine[e / WM * PITCH + e % WM];
            }
        }
    }
}

template <int WM, int WN, class Out>
__device__ void write_channels(const float (&of)[WM / 16][WN / 8][4], float* memory, const long long* offsets, Out* y,
                               const Out* bias, const Conv& p, int channel) {
    constexpr int PITCH = WN + 8, EACH = 16 / sizeof(Out);
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float add[WN / 8][2];
#pragma unroll
    for (int n = 0; n < WN / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            int c = channel + n * 8 + t * 2 + e;
            add[n][e] = bias && c < p.target_c ? to<float>(bias[c]) : 0;
        }
#pragma unroll
    for (int i = 0; i < WM / 16; ++i) {
        __syncwarp();
#pragma unroll
        for (int n = 0; n < WN / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) memory[(g + e / 2 * 8) * PITCH + n * 8 + t * 2 + e % 2] = of[i][n][e] + add[n][e % 2];
        __syncwarp();
        if (p.wide) {
            for (int e = lane; e < 16 * WN / EACH; e += 32) {
                int row = e / (WN / EACH), column = e % (WN / EACH) * EACH;
                long long at = offsets[i * 16 + row];
                if (at >= 0 && channel + column < p.target_c)
                    write_vector(y + at + channel + column, memory + row * PITCH + column, 0);
            }
        } else {
            for (int e = lane; e < 16 * WN; e += 32) {
                int c = channel + e % WN;
                long long at = offsets[i * 16 + e / WN];
                if (at >= 0 && c < p.target_c) y[at + c] = to<Out>(memory[e / WN * PITCH + e % WN]);
            }
        }
    }
}

// BM pixels x BN channels for a block, BYTES along the depth for a stage; a warp owns WM x WN. ROUND: the source is float that
// has not been rounded to tf32. Blocks are numbered by tile, then by part of the depth (x), by phase (y) and by group (z).
template <class T, int BM, int BN, int BYTES, int WM, int WN, int STAGES, bool BACK, bool SPLIT, bool ROUND>
__device__ void tensor_block(const T* x, const T* weight, const T* bias, T* y, float* parts, int* counters, const Conv& p) {
    constexpr int THREADS = BM / WM * (BN / WN) * 32, VECTORS = BYTES / 16, EACH = 16 / sizeof(T);
    constexpr int ROWS = THREADS / VECTORS, A_COPIES = BM / ROWS, B_COPIES = BN / ROWS;
    constexpr int STAGE = (BM + BN) * BYTES, DOWN = WM / 16, ACROSS = WN / 8;
    static_assert(BM % ROWS == 0 && BN % ROWS == 0 && WN % 16 == 0, "whole rounds of copies");
    extern __shared__ __align__(128) float memory[];
    int tiles = p.tiles_m * p.tiles_n, split = blockIdx.x / tiles, number = blockIdx.x % tiles, group = blockIdx.z;
    int2 tile = in_bands(number, p.tiles_m, p.tiles_n);  // rows of this order: channels
    int n0 = tile.x * BN, m0 = tile.y * BM;
    Window window = Window::of<BACK>(p, blockIdx.y);
    int pixels = window.pixels(p);
    if (m0 >= pixels) return;  // phases differ in size
    x += group * p.source_c, weight += group * p.weight_group;

    // What this thread copies: one vector of some rows of both sides.
    int vector = threadIdx.x % VECTORS, row = threadIdx.x / VECTORS, per_tap = p.source_c / EACH;
    int taps = window.h.taps * window.w.taps, steps = (taps * per_tap + VECTORS - 1) / VECTORS;
    int first = SPLIT ? min(steps, split * p.each) : 0, last = SPLIT ? min(steps, first + p.each) : steps;
    int tap = (first * VECTORS + vector) / per_tap, at = first * VECTORS + vector - tap * per_tap;
    int columns = max(1, window.w.taps), r = tap / columns, s = tap - r * columns;  // of the tap
    int row_step = int(p.source[2]) * window.h.step, column_step = int(p.source[3]) * window.w.step;
    const T* corner[A_COPIES];
    int h[A_COPIES], w[A_COPIES];
#pragma unroll
    for (int i = 0; i < A_COPIES; ++i) {
        int index = m0 + row + i * ROWS;
        Pixel pixel(min(index, pixels - 1), window);
        h[i] = index < pixels ? pixel.i * window.h.mul + window.h.base : -(1 << 30);
        w[i] = pixel.j * window.w.mul + window.w.base;
        corner[i] = x + pixel.n * p.source[0] + (pixel.i * window.h.mul + window.h.base) * p.source[2] + w[i] * p.source[3];
    }
    unsigned base = shared_address(memory), into = base;
    // One of PARTS parts of a stage: copies between products do not hold them up.
    constexpr int PARTS = BYTES / 32;
    auto fetch = [&](int step, int part) {
        int dh = r * window.h.step, dw = s * window.w.step, offset = r * row_step + s * column_step + at * EACH;
        bool there = step < last && r < window.h.taps;
#pragma unroll
        for (int i = 0; i < A_COPIES; ++i) {
            if (i * PARTS / A_COPIES != part) continue;
            bool inside = there && unsigned(h[i] + dh) < p.source_h && unsigned(w[i] + dw) < p.source_w;
            copy16(into + place<BYTES>(row + i * ROWS, vector), corner[i] + offset, inside);
        }
        int number = (window.h.first + r * window.h.skip) * p.S + window.w.first + s * window.w.skip;
        const T* from = weight + (long long)(n0 + row) * p.weight_target + number * p.source_c + at * EACH;
#pragma unroll
        for (int i = 0; i < B_COPIES; ++i) {
            if (i * PARTS / B_COPIES != part) continue;
            copy16(into + BM * BYTES + place<BYTES>(row + i * ROWS, vector), from + (long long)i * ROWS * p.weight_target,
                   there && n0 + row + i * ROWS < p.target_c);
        }
        if (part < PARTS - 1) return;
        asm volatile("cp.async.commit_group;");
        into = into + STAGE == base + STAGES * STAGE ? base : into + STAGE;
        at += VECTORS;
        while (at >= per_tap) {
            at -= per_tap;
            if (++s == columns) s = 0, ++r;
        }
    };

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
    float of[DOWN][ACROSS][4] = {};
    unsigned a[2][DOWN][4], b[2][ACROSS][2];
    // The address of this lane's row: A has rows 0-15 by 2 vectors, B has two times 8 rows by 2 vectors.
    int a_row = wm + lane % 16, a_vector = lane / 16, b_row = wn + lane % 8 + lane / 16 * 8, b_vector = lane / 8 % 2;
    auto load = [&](int to, unsigned stage, int k) {
#pragma unroll
        for (int i = 0; i < DOWN; ++i) {
            load_matrices(a[to][i], stage + place<BYTES>(a_row + i * 16, k * 2 + a_vector));
            if constexpr (ROUND)
#pragma unroll
                for (int e = 0; e < 4; ++e) a[to][i][e] = as_tf32(a[to][i][e]);
        }
#pragma unroll
        for (int n = 0; n < ACROSS; n += 2)
            load_matrices(b[to][n], stage + BM * BYTES + place<BYTES>(b_row + n * 8, k * 2 + b_vector));
    };
    for (int s = 0; s < STAGES - 1; ++s)
#pragma unroll
        for (int part = 0; part < PARTS; ++part) fetch(first + s, part);
    unsigned stage = base;
#pragma unroll 1
    for (int step = first; step < last; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        load(0, stage, 0);
#pragma unroll
        for (int k = 0; k < PARTS; ++k) {
            if (k + 1 < PARTS) load((k + 1) % 2, stage, k + 1);
            fetch(step + STAGES - 1, k);
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
#pragma unroll
                for (int n = 0; n < ACROSS; ++n) multiply<T>(of[i][n], a[k % 2][i], b[k % 2][n]);
        }
        stage = stage + STAGE == base + STAGES * STAGE ? base : stage + STAGE;
    }
    asm volatile("cp.async.wait_all;");
    if constexpr (SPLIT) {
        long long slot = (long long)(group * gridDim.y + blockIdx.y) * tiles + number;
        if (!join_parts<THREADS>(reinterpret_cast<float(&)[DOWN * ACROSS * 4]>(of), parts, counters, slot, split, p.splits)) return;
    }
    __syncthreads();
    long long* offsets = reinterpret_cast<long long*>(memory);
    for (int c = threadIdx.x; c < BM; c += THREADS) {
        Pixel pixel(min(m0 + c, pixels - 1), window);
        offsets[c] = m0 + c < pixels
            ? pixel.n * p.target[0] + window.h.out(pixel.i) * p.target[2] + window.w.out(pixel.j) * p.target[3] : -1;
    }
    __syncthreads();
    y += (long long)group * p.target_c * p.target[1];
    if (bias) bias += group * p.target_c;
    constexpr int ROOM = 8 * (WM + 8) > 16 * (WN + 8) ? 8 * (WM + 8) : 16 * (WN + 8);
    float* mine = memory + 2 * BM + warp * ROOM;
    if (p.target[1] == 1) write_channels<WM, WN>(of, mine, offsets + wm, y, bias, p, n0 + wn);
    else write_pixels<WM, WN>(of, mine, offsets + wm, y, bias, p, n0 + wn);
}
