// Convolution with one to four target channels in a group, as skinny.cu, for rows in whole vectors:
// the backward pass to the data of stride 1 or 2, and the forward pass of stride 1, which is the
// same with the taps reversed (FLIP). A thread computes a strip of PIXELS neighbours of a row, for
// all phases and channels: what it loads of a row of the source serves all of them.
#include <weft/convert.cuh>
#include <weft/warp.cuh>
#include "window.cuh"

using namespace weft;

// The positions of the strips are those of a phase: position i has the target rows STRIDE * i + a,
// for the phases a. Phase a has the taps r = first + STRIDE * t of row i + (a + PAD) / STRIDE - t
// of the source. ROOM weights are in shared memory at a time. SPLIT_CHANNELS: for few strips, the
// four warps of a block have the same ones, and a quarter of the source channels each.
template <class T, int ROWS, int R, int S, int STRIDE, int PAD_H, int PAD_W, int PIXELS, int ROOM,
          bool FLIP, bool SPLIT_CHANNELS>
__global__ void __launch_bounds__(128)
    strips(const T* x, const T* weight, const T* bias, T* y, const Conv p) {
    constexpr int ABOVE = (R - 1 - PAD_H) / STRIDE, BELOW = (STRIDE - 1 + PAD_H) / STRIDE;
    constexpr int LEFT = (S - 1 - PAD_W) / STRIDE, RIGHT = (STRIDE - 1 + PAD_W) / STRIDE,
                  CHUNK = ROOM / (R * S * 4);
    static_assert(LEFT <= PIXELS && RIGHT <= PIXELS && PAD_H < R && PAD_W < S,
                  "a row needs the neighbouring strips alone");
    __shared__ __align__(16) float weights[CHUNK * R * S * 4];
    int across = ((p.target_w + STRIDE - 1) / STRIDE + PIXELS - 1) / PIXELS,
        down = (p.target_h + STRIDE - 1) / STRIDE;
    constexpr int WARPS = SPLIT_CHANNELS ? 4 : 1, SUMS = STRIDE * STRIDE * ROWS * PIXELS;
    static_assert(!SPLIT_CHANNELS || (WARPS - 1) * 32 * SUMS <= CHUNK * R * S * 4,
                  "the sums of three warps replace the weights");
    int lane = threadIdx.x % 32, warp = SPLIT_CHANNELS ? threadIdx.x / 32 : 0, group = blockIdx.y;
    int index = SPLIT_CHANNELS ? blockIdx.x * 32 + lane : blockIdx.x * 128 + threadIdx.x;
    int line = index / across, j = (index - line * across) * PIXELS, n = line / down,
        i = line - n * down;
    bool there = n < p.batch;
    x += (there ? n : 0) * p.source[0] + group * p.source_c * p.source[1],
        weight += group * p.weight_group;
    float sums[STRIDE][STRIDE][ROWS][PIXELS] = {};
    for (int c0 = 0; c0 < p.source_c; c0 += CHUNK) {
        int count = min(CHUNK, p.source_c - c0);
        __syncthreads();
        for (int e = threadIdx.x; e < count * R * S * 4; e += 128) {
            int m = e % 4, tap = e / 4 % (R * S), c = e / 4 / (R * S);
            weights[e] = m < p.target_c ? to<float>(weight[(long long)m * p.weight_target +
                                                           (long long)(c0 + c) * p.weight_source +
                                                           (FLIP ? R * S - 1 - tap : tap)])
                                        : 0;
        }
        __syncthreads();
#pragma unroll 1
        for (int c = warp; c < count; c += WARPS) {
            const float* of = weights + c * R * S * 4;
#pragma unroll
            for (int u = -ABOVE; u <= BELOW; ++u) {
                // Padding is zeros, which count: zero times infinity is NaN.
                const T* row = x + (long long)(c0 + c) * p.source[1] + (i + u) * p.source[2] + j;
                bool inside = there && unsigned(i + u) < p.source_h;
                float at[LEFT + PIXELS + RIGHT];
                Vector<T, PIXELS> v = {};
                if (inside && j < p.source_w) v = load<PIXELS>(row);
#pragma unroll
                for (int e = 0; e < PIXELS; ++e) at[LEFT + e] = to<float>(v[e]);
                // The neighbours are in the lanes beside; a row begins and ends with padding.
#pragma unroll
                for (int e = 0; e < LEFT; ++e) {
                    float beside = shuffle_up(at[LEFT + PIXELS - LEFT + e], 1);
                    if (lane == 0)
                        beside = inside && j > 0 && j <= p.source_w ? to<float>(row[e - LEFT]) : 0;
                    at[e] = j > 0 ? beside : 0;
                }
#pragma unroll
                for (int e = 0; e < RIGHT; ++e) {
                    float beside = shuffle_down(at[LEFT + e], 1);
                    bool more = j + PIXELS < p.source_w;
                    if (lane == 31) beside = inside && more ? to<float>(row[PIXELS + e]) : 0;
                    at[LEFT + PIXELS + e] = more ? beside : 0;
                }
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    // The phase of tap r is that for which a + PAD - r is a multiple of the stride.
                    int a = ((r - PAD_H) % STRIDE + STRIDE) % STRIDE;
                    if ((a + PAD_H - r) / STRIDE != u) continue;
#pragma unroll
                    for (int s = 0; s < S; ++s) {
                        int b = ((s - PAD_W) % STRIDE + STRIDE) % STRIDE,
                            to_column = (b + PAD_W - s) / STRIDE + LEFT;
                        Vector<float, 4> factor = load<4>(of + (r * S + s) * 4);
#pragma unroll
                        for (int m = 0; m < ROWS; ++m)
#pragma unroll
                            for (int e = 0; e < PIXELS; ++e)
                                sums[a][b][m][e] += at[to_column + e] * factor[m];
                    }
                }
            }
        }
    }
    if constexpr (SPLIT_CHANNELS) {
        float (*all)[32] = reinterpret_cast<float (*)[32]>(weights);
        float* mine = &sums[0][0][0][0];
        __syncthreads();
#pragma unroll
        for (int e = 0; e < SUMS; ++e)
            if (warp > 0) all[(warp - 1) * SUMS + e][lane] = mine[e];
        __syncthreads();
        if (warp > 0) return;
#pragma unroll
        for (int e = 0; e < SUMS; ++e)
#pragma unroll
            for (int w = 0; w < WARPS - 1; ++w) mine[e] += all[w * SUMS + e][lane];
    }
    if (!there) return;
    y += n * p.target[0] + (long long)group * p.target_c * p.target[1] +
         (long long)i * STRIDE * p.target[2] + j * STRIDE;
    constexpr int EACH = PIXELS * STRIDE * sizeof(T) >= 16 ? 16 / sizeof(T) : PIXELS * STRIDE;
#pragma unroll
    for (int m = 0; m < ROWS; ++m) {
        if (m >= p.target_c) break;
        float add = bias ? to<float>(bias[group * p.target_c + m]) : 0;
#pragma unroll
        for (int a = 0; a < STRIDE; ++a) {
            if (i * STRIDE + a >= p.target_h) break;
            T* to_row = y + m * p.target[1] + a * p.target[2];
#pragma unroll
            for (int e = 0; e < PIXELS * STRIDE; e += EACH) {
                Vector<T, EACH> v;
#pragma unroll
                for (int f = 0; f < EACH; ++f)
                    v[f] = to<T>(sums[a][(e + f) % STRIDE][m][(e + f) / STRIDE] + add);
                if (p.wide) {
                    if (j * STRIDE + e < p.target_w) store(to_row + e, v);
                } else {
#pragma unroll
                    for (int f = 0; f < EACH; ++f)
                        if (j * STRIDE + e + f < p.target_w) to_row[e + f] = v[f];
                }
            }
        }
    }
}
