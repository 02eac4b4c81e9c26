// Convolution with one to four target channels in a group, such as the gradient of an image of
// three: a tile of a matrix product would be mostly empty. A thread computes all channels of PIXELS
// pixels, so that an element that it loads serves each channel; the weights are broadcast from
// shared memory.
#include <weft/convert.cuh>
#include "window.cuh"

using namespace weft;

// Pixels are numbered along images, rows and columns of a phase; a block has PIXELS * 128
// neighbours. Blocks along y are phases, along z groups. ROOM weights are in shared memory at a
// time.
template <class T, int ROWS, int PIXELS, int ROOM, bool BACK>
__global__ void __launch_bounds__(128)
    skinny(const T* x, const T* weight, const T* bias, T* y, const Conv p) {
    __shared__ __align__(16) float weights[ROOM];
    Window window = Window::of<BACK>(p, blockIdx.y);
    int pixels = window.pixels(p), first = blockIdx.x * (PIXELS * 128), group = blockIdx.z;
    if (first >= pixels) return;  // phases differ in size
    x += group * p.source_c * p.source[1], weight += group * p.weight_group;
    const T* corner[PIXELS];
    int h[PIXELS], w[PIXELS];
    float sums[PIXELS][ROWS] = {};
#pragma unroll
    for (int i = 0; i < PIXELS; ++i) {
        int index = first + i * 128 + threadIdx.x;
        Pixel pixel(min(index, pixels - 1), window);
        h[i] = index < pixels ? pixel.i * window.h.mul + window.h.base : -(1 << 30);
        w[i] = pixel.j * window.w.mul + window.w.base;
        corner[i] = x + pixel.n * p.source[0] +
                    (pixel.i * window.h.mul + window.h.base) * p.source[2] + w[i] * p.source[3];
    }
    int column_step = int(window.w.step * p.source[3]);
    int taps = window.h.taps * window.w.taps, chunk = max(1, ROOM / max(1, taps * ROWS));
    for (int c0 = 0; c0 < p.source_c && taps; c0 += chunk) {
        int count = min(chunk, p.source_c - c0);
        __syncthreads();
        for (int e = threadIdx.x; e < count * taps * ROWS; e += 128) {
            int m = e % ROWS, rest = e / ROWS, c = rest / taps, tap = rest - c * taps,
                r = tap / window.w.taps, s = tap - r * window.w.taps;
            int number =
                (window.h.first + r * window.h.skip) * p.S + window.w.first + s * window.w.skip;
            weights[e] = m < p.target_c
                             ? to<float>(weight[(long long)m * p.weight_target +
                                                (long long)(c0 + c) * p.weight_source + number])
                             : 0;
        }
        __syncthreads();
        const float* of = weights;
        for (int c = 0; c < count; ++c)
            for (int r = 0; r < window.h.taps; ++r) {
                int dh = r * window.h.step, dw = 0;
                int offset = int((c0 + c) * p.source[1] + dh * p.source[2]);  // within an image
                bool row[PIXELS];
#pragma unroll
                for (int i = 0; i < PIXELS; ++i) row[i] = unsigned(h[i] + dh) < p.source_h;
#pragma unroll 3
                for (int s = 0; s < window.w.taps;
                     ++s, of += ROWS, dw += window.w.step, offset += column_step) {
                    Vector<float, ROWS> factor = load<ROWS>(of);
#pragma unroll
                    for (int i = 0; i < PIXELS; ++i) {
                        // Padding is zeros, which count: zero times infinity is NaN.
                        float value = row[i] && unsigned(w[i] + dw) < p.source_w
                                          ? to<float>(corner[i][offset])
                                          : 0;
#pragma unroll
                        for (int m = 0; m < ROWS; ++m) sums[i][m] += value * factor[m];
                    }
                }
            }
    }
    y += group * p.target_c * p.target[1];
#pragma unroll
    for (int i = 0; i < PIXELS; ++i) {
        int index = first + i * 128 + threadIdx.x;
        if (index >= pixels) break;
        Pixel pixel(index, window);
        T* to_pixel = y + pixel.n * p.target[0] + window.h.out(pixel.i) * p.target[2] +
                      window.w.out(pixel.j) * p.target[3];
#pragma unroll
        for (int m = 0; m < ROWS; ++m)
            if (m < p.target_c)
                to_pixel[m * p.target[1]] =
                    to<T>(sums[i][m] + (bias ? to<float>(bias[group * p.target_c + m]) : 0));
    }
}
