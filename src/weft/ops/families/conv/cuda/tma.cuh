// Convolution of 16-bit elements on Hopper by boxes of pixels: what the kernels of tma.cu and
// tma_weight.cu know of their problem.
//
// A tile of the target is a box of positions, `tile_w` x `tile_h` of `tile_n` images. The source
// pixels that its taps read are a plane: a box that one copy brings to shared memory, a row of 128
// bytes (64 channels) for each pixel. Position (i, j) of the tile and a tap with the shift d read
// row i * row + j + d of the plane. So each tap reads the same rows from another one on, and a
// pixel is copied once for all taps. Rows between the columns of the tile have results as well,
// which are dropped.
//
// Taps that are not a multiple of the stride apart have planes of their own. A backward pass to the
// data has phases: positions of the target that are `stride` apart are read by the same taps.
#pragma once

// tma/boxes.py declares Boxes.
STRUCT_BOXES;

__device__ inline int works(const Boxes& p) {
    return p.tiles_c * p.tiles_w * p.tiles_h * p.tiles_n * p.phases;
}

// The part of the target that work number `at` computes.
struct Box {
    int phase, channel, x, y, n;  // tiles of channels; the first position

    __device__ Box(int at, const Boxes& p) {
        channel = at % p.tiles_c, at /= p.tiles_c;
        x = at % p.tiles_w, at /= p.tiles_w;
        y = at % p.tiles_h, at /= p.tiles_h;
        n = at % p.tiles_n, phase = at / p.tiles_n;
        x *= p.tile_w, y *= p.tile_h, n *= p.tile_n;
    }
};
