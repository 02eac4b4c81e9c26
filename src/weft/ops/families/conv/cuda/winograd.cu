// Convolution of 3 x 3 taps with stride 1 by Winograd's algorithm F(4 x 4, 3 x 3): 36 products for
// 16 results instead of 144. A tile of 6 x 6 pixels and a filter become 36 numbers each; these are
// multiplied place by place, summed over the channels (36 matrix products, matmul.cu) and become a
// tile of 4 x 4 results.
#include "winograd.cuh"

// One thread per tile and channel. `to` is [place][channel][tile]. Channels are blocks along y.
template <class L>
__global__ void __launch_bounds__(128) from_tiles(const float* x, float* to, const Tiles p) {
    int tile = blockIdx.x * 128 + threadIdx.x;
    if (tile >= p.padded) return;
    for (int c = blockIdx.y; c < p.channels; c += gridDim.y) {
        float of[L::IN][L::IN], made[L::OUT][L::OUT];
        int row = tile / p.tiles_w, j = tile - row * p.tiles_w, n = row / p.tiles_h,
            i = row - n * p.tiles_h;
        int h = i * 4 - p.pad_h, w = j * 4 - p.pad_w;
        const float* from = x + n * p.batch + c * p.channel + h * p.row + w * p.column;
#pragma unroll
        for (int r = 0; r < L::IN; ++r)
#pragma unroll
            for (int s = 0; s < L::IN; ++s) {
                bool inside = tile < p.count && unsigned(h + r) < p.h && unsigned(w + s) < p.w;
                of[r][s] = inside ? from[r * p.row + s * p.column] : 0;
            }
        transform<L>(of, made);
        float* out = to + (long long)c * p.padded + tile;
#pragma unroll
        for (int e = 0; e < L::OUT * L::OUT; ++e)
            out[e * ((long long)p.channels * p.padded)] = made[e / L::OUT][e % L::OUT];
    }
}

// One thread per tile and channel: `from` is [place][part][channel][tile].
__global__ void __launch_bounds__(128)
    to_tiles(const float* from, const float* bias, float* y, const Tiles p) {
    int tile = blockIdx.x * 128 + threadIdx.x;
    if (tile >= p.count) return;
    for (int c = blockIdx.y; c < p.channels; c += gridDim.y) {
        float made[4][4];
        results_of(made, from, p, c, tile);
        int row = tile / p.tiles_w, j = tile - row * p.tiles_w, n = row / p.tiles_h,
            i = row - n * p.tiles_h;
        float add = bias ? bias[c] : 0;
        float* to = y + n * p.batch + c * p.channel + i * 4 * p.row + j * 4 * p.column;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (i * 4 + r >= p.h) break;
            if (p.wide)
                *reinterpret_cast<float4*>(to + r * p.row) = make_float4(
                    made[r][0] + add, made[r][1] + add, made[r][2] + add, made[r][3] + add);
            else
#pragma unroll
                for (int s = 0; s < 4; ++s)
                    if (j * 4 + s < p.w) to[r * p.row + s * p.column] = made[r][s] + add;
        }
    }
}

// Weights [K][C][3][3] become [place][C][K]; with BACK, rotated by 180 degrees, [place][K][C]. One
// thread per filter and channel.
template <bool BACK>
__global__ void __launch_bounds__(128) from_filters(const float* weight, float* to, int K, int C) {
    long long index = blockIdx.x * 128ll + threadIdx.x, size = (long long)K * C;
    if (index >= size) return;
    int k = int(BACK ? index / C : index % K), c = int(BACK ? index % C : index / K);
    const float* from = weight + ((long long)k * C + c) * 9;
    float of[3][3], made[6][6];
#pragma unroll
    for (int e = 0; e < 9; ++e) of[e / 3][e % 3] = from[BACK ? 8 - e : e];
    transform<Filter>(of, made);
#pragma unroll
    for (int e = 0; e < 36; ++e) to[e * size + index] = made[e / 6][e % 6];
}

// The gradient of weights: [place][K][C] becomes [K][C][3][3]. One thread per filter and channel.
__global__ void __launch_bounds__(128)
    to_filters(const float* from, float* gradient, int K, int C) {
    long long index = blockIdx.x * 128ll + threadIdx.x, size = (long long)K * C;
    if (index >= size) return;
    float of[6][6], made[3][3];
#pragma unroll
    for (int e = 0; e < 36; ++e) of[e / 6][e % 6] = from[e * size + index];
    transform<FilterGradient>(of, made);
#pragma unroll
    for (int e = 0; e < 9; ++e) gradient[index * 9 + e] = made[e / 3][e % 3];
}
