// A convolution as its kernels see it. A pass reads the tensor `source` through windows and writes
// the tensor `target`: the forward pass reads x and writes y, the backward pass to the data reads
// dy and writes dx.
#pragma once

// Channels are those of one group. Strides are in elements, in the order batch, channel, row,
// column. The weights have strides along target channels, source channels and groups; a filter's R
// x S taps are contiguous.
struct Conv {
    int batch, groups;
    int source_c, source_h, source_w;
    int target_c, target_h, target_w;
    int R, S, stride_h, stride_w, pad_h, pad_w, dil_h, dil_w;
    int weight_target, weight_source;
    int splits, each, tiles_m,
        tiles_n;  // the depth of the product is cut into `splits` parts of `each`
    int wide;  // 1 if the pixels of an image are whole 16-byte vectors of the target, or its
               // channels where these are innermost
    int target_group;  // elements from the channels of a group to the next, of a packed target that
                       // is read
    int flat;  // 1 for one tap, if pixel i of the batch is computed from pixel i of a source
               // without gaps
    long long source[4], target[4], weight_group;
};

// One direction of the windows. The i-th position, at row `i * out_mul + out_add` of the target,
// reads the rows `i * mul + base + t * step` of the source, with weights of the taps `first + t *
// skip`, for t < taps.
//
// The forward pass has one phase. The backward pass to the data has `stride` phases: rows of dx
// that are `stride` apart are read by the same taps, so that each phase is a convolution of stride
// 1 with some of the taps.
struct Axis {
    int count, mul, base, step, taps, first, skip, out_mul, out_add;

    __device__ int out(int i) const { return i * out_mul + out_add; }
};

template <bool BACK>
__device__ Axis axis(int target, int taps, int stride, int pad, int dil, int phase) {
    if constexpr (!BACK) return {target, stride, -pad, dil, taps, 0, 1, 1, 0};
    // Row h of dx receives tap r from row (h + pad - r * dil) / stride of dy, where that is whole.
    // The taps of a phase are `skip` apart: the smallest distance whose product with `dil` is a
    // multiple of the stride.
    int skip = 1, first = 0;
    while (skip * dil % stride) ++skip;
    while (first < skip && (phase + pad - first * dil) % stride) ++first;
    bool none = first == skip || first >= taps;
    return {(target - phase + stride - 1) / stride,
            1,
            none ? 0 : (phase + pad - first * dil) / stride,
            -(skip * dil / stride),
            none ? 0 : (taps - first + skip - 1) / skip,
            first,
            skip,
            stride,
            phase};
}

// Both directions, for a phase: numbered by row, then by column.
struct Window {
    Axis h, w;

    template <bool BACK>
    __device__ static Window of(const Conv& p, int phase) {
        return {axis<BACK>(p.target_h, p.R, p.stride_h, p.pad_h, p.dil_h,
                           BACK ? phase / p.stride_w : 0),
                axis<BACK>(p.target_w, p.S, p.stride_w, p.pad_w, p.dil_w,
                           BACK ? phase % p.stride_w : 0)};
    }
    __device__ int pixels(const Conv& p) const {
        return p.batch * h.count * w.count;
    }  // at most 2^31 - 1
};

// A pixel of the target: its image and its position in the window grid.
struct Pixel {
    int n, i, j;

    __device__ Pixel(int index, const Window& window) {
        int row = index / window.w.count;
        j = index - row * window.w.count, n = row / window.h.count, i = row - n * window.h.count;
    }
};
