// Convolution in which every filter reads one channel (depthwise). It moves few bytes per product,
// so that the kernels are limited by memory: a thread keeps a strip of the image in registers, and
// each element that it loads serves all taps that need it.
#include <weft/convert.cuh>
#include <weft/warp.cuh>
#include "window.cuh"

using namespace weft;

// The part of a row that four neighbouring windows read, from column 4 * j * STRIDE - PAD on. WIDE:
// rows are whole vectors of four elements; the vectors that have these columns begin `SHIFT`
// columns before.
template <class T, int S, int STRIDE, int PAD, bool WIDE>
struct Strip {
    static constexpr int COUNT = 3 * STRIDE + S, BEFORE = (PAD + 3) / 4 * 4,
                         SHIFT = WIDE ? BEFORE - PAD : 0;
    static constexpr int VECTORS = (SHIFT + COUNT + 3) / 4;
    float of[VECTORS * 4];

    __device__ void load(const T* row, int j, int width, bool there) {
        if constexpr (WIDE) {
            int first = 4 * j * STRIDE - BEFORE;
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) {
                Vector<T, 4> four = {};
                if (there && unsigned(first + v * 4) < width) four = ::load<4>(row + first + v * 4);
#pragma unroll
                for (int e = 0; e < 4; ++e) of[v * 4 + e] = to<float>(four[e]);
            }
        } else {
            int first = 4 * j * STRIDE - PAD;
#pragma unroll
            for (int e = 0; e < COUNT; ++e)
                of[e] = there && unsigned(first + e) < width ? to<float>(row[first + e]) : 0;
        }
    }
    // What window `e` of the four reads with tap s.
    __device__ float at(int e, int s) const { return of[SHIFT + e * STRIDE + s]; }
};

// Filters read channels in order, p.target_c filters each. FLIP: the taps in reverse order, for the
// backward pass to the data with stride 1. A thread computes four columns of ROWS rows. WIDE as in
// Strip, for x and y.
template <class T, int R, int S, int STRIDE, int PAD, int ROWS, bool FLIP, bool WIDE>
__global__ void __launch_bounds__(128)
    depthwise(const T* x, const T* weight, const T* bias, T* y, const Conv p) {
    int strips = (p.target_w + 3) / 4, bands = (p.target_h + ROWS - 1) / ROWS;
    int index = blockIdx.x * 128 + threadIdx.x, j = index % strips, rest = index / strips,
        i = rest % bands * ROWS;
    int plane = rest / bands, filters = p.groups * p.target_c, n = plane / filters,
        k = plane - n * filters;
    if (n >= p.batch) return;
    float taps[R][S], sums[ROWS][4];
#pragma unroll
    for (int t = 0; t < R * S; ++t)
        taps[t / S][t % S] = to<float>(weight[(long long)k * (R * S) + (FLIP ? R * S - 1 - t : t)]);
    float start = bias ? to<float>(bias[k]) : 0;
#pragma unroll
    for (int e = 0; e < ROWS * 4; ++e) sums[e / 4][e % 4] = start;
    const T* from = x + n * p.source[0] + k / p.target_c * p.source[1];
    int top = i * STRIDE - p.pad_h;
#pragma unroll
    for (int r = 0; r < (ROWS - 1) * STRIDE + R; ++r) {
        Strip<T, S, STRIDE, PAD, WIDE> strip;
        strip.load(from + (top + r) * p.source[2], j, p.source_w, unsigned(top + r) < p.source_h);
#pragma unroll
        for (int o = 0; o < ROWS; ++o) {
            int tap = r - o * STRIDE;
            if (tap < 0 || tap >= R) continue;
#pragma unroll
            for (int s = 0; s < S; ++s)
#pragma unroll
                for (int e = 0; e < 4; ++e) sums[o][e] += strip.at(e, s) * taps[tap][s];
        }
    }
    T* to_row = y + n * p.target[0] + k * p.target[1] + i * p.target[2] + j * 4;
#pragma unroll
    for (int o = 0; o < ROWS; ++o) {
        if (i + o >= p.target_h) break;
        if constexpr (WIDE) {
            Vector<T, 4> four;
#pragma unroll
            for (int e = 0; e < 4; ++e) four[e] = to<T>(sums[o][e]);
            store(to_row + o * p.target[2], four);
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (j * 4 + e < p.target_w) to_row[o * p.target[2] + e] = to<T>(sums[o][e]);
        }
    }
}

// The gradient of the weights. A block sums the products of one filter's taps for `each` strips of
// four columns of dy. Blocks are numbered by filter (x) and by part of the strips (y). Each part is
// a tensor of its own in `out`; `add_parts` adds them where there are several.
template <class T, class Out, int R, int S, int STRIDE, int PAD, bool WIDE>
__global__ void __launch_bounds__(128)
    depthwise_weight(const T* x, const T* dy, Out* out, const Conv p) {
    int strips = (p.target_w + 3) / 4, all = p.batch * p.target_h * strips, k = blockIdx.x;
    int first = blockIdx.y * p.each, last = min(all, first + p.each);
    x += k / p.target_c * p.source[1], dy += k * p.target[1];
    float sums[R][S] = {};
    for (int index = first + threadIdx.x; index < last; index += 128) {
        int row = index / strips, j = index - row * strips, n = row / p.target_h,
            i = row - n * p.target_h;
        Strip<T, 1, 1, 0, WIDE> gradient;
        gradient.load(dy + n * p.target[0] + i * p.target[2], j, p.target_w, true);
        int top = i * STRIDE - p.pad_h;
        const T* from = x + n * p.source[0] + top * p.source[2];
#pragma unroll
        for (int r = 0; r < R; ++r) {
            Strip<T, S, STRIDE, PAD, WIDE> strip;
            strip.load(from + r * p.source[2], j, p.source_w, unsigned(top + r) < p.source_h);
#pragma unroll
            for (int s = 0; s < S; ++s)
#pragma unroll
                for (int e = 0; e < 4; ++e) sums[r][s] += strip.at(e, s) * gradient.of[e];
        }
    }
    __shared__ float parts[4][R * S];
#pragma unroll
    for (int t = 0; t < R * S; ++t) {
        float sum = warp_sum(sums[t / S][t % S]);
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32][t] = sum;
    }
    __syncthreads();
    long long size = (long long)gridDim.x * (R * S);
    for (int t = threadIdx.x; t < R * S; t += 128)
        out[blockIdx.y * size + (long long)k * (R * S) + t] =
            to<Out>(parts[0][t] + parts[1][t] + (parts[2][t] + parts[3][t]));
}
