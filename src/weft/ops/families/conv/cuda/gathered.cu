// Convolution of small tensors of any stride, type and order: a thread computes ROWS target
// channels of a pixel. The products of a pixel are numbered along channels and taps; where each
// lies in the source is in a table in shared memory, so that a loop without branches has eight
// loads under way. The weights are broadcast from shared memory.
#include <weft/convert.cuh>
#include "window.cuh"

using namespace weft;

// A block has 128 / PARTS pixels, whose products its warps divide among them. DEPTH of them are in
// the table at a time. Blocks along y are phases, along z groups and their parts of ROWS channels.
// At most 32 taps: a bit for each says whether it lies in the source.
template <class T, int ROWS, int PARTS, int DEPTH, bool BACK>
__global__ void __launch_bounds__(128)
    gathered(const T* x, const T* weight, const T* bias, T* y, const Conv p) {
    constexpr int PIXELS = 128 / PARTS, STEP = 8;
    static_assert(DEPTH % (STEP * PARTS) == 0 && DEPTH >= 128,
                  "whole steps, and room for the sums");
    struct Place {
        int offset;  // from the first element of a window
        unsigned tap;
    };
    __shared__ __align__(16) float weights[DEPTH * ROWS];
    __shared__ Place places[DEPTH];
    Window window = Window::of<BACK>(p, blockIdx.y);
    int pixels = window.pixels(p), first = blockIdx.x * PIXELS;
    if (first >= pixels) return;  // phases differ in size
    int chunks = (p.target_c + ROWS - 1) / ROWS, group = blockIdx.z / chunks,
        m0 = (blockIdx.z - group * chunks) * ROWS;
    int part = threadIdx.x / PIXELS, index = first + threadIdx.x % PIXELS;
    Pixel pixel(min(index, pixels - 1), window);
    int h = pixel.i * window.h.mul + window.h.base, w = pixel.j * window.w.mul + window.w.base;
    const T* corner = x + pixel.n * p.source[0] + group * p.source_c * p.source[1] +
                      h * p.source[2] + w * p.source[3];
    int columns = window.w.taps, taps = window.h.taps * columns, depth = p.source_c * taps;
    unsigned mask = 0;
    for (int r = 0; r < window.h.taps; ++r)
        for (int s = 0; s < columns; ++s)
            mask |= unsigned(unsigned(h + r * window.h.step) < p.source_h &&
                             unsigned(w + s * window.w.step) < p.source_w)
                    << (r * columns + s);
    weight += group * p.weight_group + (long long)m0 * p.weight_target;
    int rows = min(ROWS, p.target_c - m0);
    Vector<float, ROWS> sums = fill<ROWS>(0.0f);
    for (int k0 = 0; k0 < depth; k0 += DEPTH) {
        int count = min(DEPTH, depth - k0),
            each = (count + STEP * PARTS - 1) / (STEP * PARTS) * STEP;
        __syncthreads();
        for (int e = threadIdx.x; e < each * PARTS; e += 128) {
            int c = (k0 + e) / taps, tap = k0 + e - c * taps, r = tap / columns,
                s = tap - r * columns;
            int number =
                (window.h.first + r * window.h.skip) * p.S + window.w.first + s * window.w.skip;
            bool there = e < count;
            places[e] = {int(c * p.source[1] + r * window.h.step * p.source[2] +
                             s * window.w.step * p.source[3]),
                         there ? 1u << tap : 0};
            const T* from = weight + (long long)c * p.weight_source + number;
#pragma unroll
            for (int m = 0; m < ROWS; ++m)
                weights[e * ROWS + m] =
                    there && m < rows ? to<float>(from[(long long)m * p.weight_target]) : 0;
        }
        __syncthreads();
#pragma unroll 1
        for (int k = part * each; k < (part + 1) * each; k += STEP) {
            float values[STEP];
#pragma unroll
            for (int i = 0; i < STEP; ++i) {
                Place at = places[k + i];
                // Padding is zeros, which count: zero times infinity is NaN.
                values[i] = mask & at.tap ? to<float>(corner[at.offset]) : 0;
            }
#pragma unroll
            for (int i = 0; i < STEP; ++i) {
                Vector<float, ROWS> factors = load<ROWS>(weights + (k + i) * ROWS);
#pragma unroll
                for (int m = 0; m < ROWS; ++m) sums[m] += values[i] * factors[m];
            }
        }
    }
    if constexpr (PARTS > 1) {
        __syncthreads();
        float* of = weights + threadIdx.x * ROWS;
        if (part > 0) store(of, sums);
        __syncthreads();
        if (part > 0) return;
#pragma unroll
        for (int other = 1; other < PARTS; ++other)
#pragma unroll
            for (int m = 0; m < ROWS; ++m) sums[m] += of[other * PIXELS * ROWS + m];
    }
    if (index >= pixels) return;
    int channel = group * p.target_c + m0;
    T* out = y + pixel.n * p.target[0] + channel * p.target[1] +
             window.h.out(pixel.i) * p.target[2] + window.w.out(pixel.j) * p.target[3];
#pragma unroll
    for (int m = 0; m < ROWS; ++m)
        if (m < rows)
            out[m * p.target[1]] = to<T>(sums[m] + (bias ? to<float>(bias[channel + m]) : 0));
}
