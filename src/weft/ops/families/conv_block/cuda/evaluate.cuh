// Evaluation, by one block: the statistics of the batch norm are given.
#pragma once
#include "fused.cuh"

template <class P>
__device__ float or_else(const P* p, int i, float missing) {
    return p ? to<float>(p[i]) : missing;
}

template <class T, class P, int R, int S, int LANES, int FT, int TW, int WY, int IM, int CC,
          int STAGES>
__device__ void evaluate(float* memory, const T* x, const T* w, const T* bias, const P* mean,
                         const P* var, const P* gamma, const P* beta, T* out, float eps,
                         const BlockShape& p) {
    using Tile = ConvTile<T, R, S, LANES, FT, TW, WY, IM, CC, STAGES>;
    int lane = threadIdx.x % LANES, strip = threadIdx.x / LANES % WY,
        im = threadIdx.x / (LANES * WY);
    int tile_x = blockIdx.x % p.tiles_x, tile_y = blockIdx.x / p.tiles_x % p.tiles_y;
    int image = blockIdx.x / (p.tiles_x * p.tiles_y) * IM, f0 = blockIdx.y * Tile::FILTERS;
    float offset[FT], scale[FT],
        shift[FT];  // not folded into two: infinite weights give what four ops give
#pragma unroll
    for (int j = 0; j < FT; ++j) {
        int f = min(f0 + lane * FT + j, p.filters - 1);
        scale[j] = or_else(gamma, f, 1.0f) * rsqrtf(to<float>(var[f]) + eps);
        offset[j] = or_else(bias, f, 0.0f) - to<float>(mean[f]), shift[j] = or_else(beta, f, 0.0f);
    }
    Tile tile;
    tile.run(memory, x, w, p, image, tile_y * 2 * WY - p.pad_y, tile_x * 2 * TW - p.pad_x, f0);
    // Through shared memory: lanes have filters, but neighbours in memory are pixels.
    constexpr int AREA = WY * TW, APART = AREA | 1;
    float* at = memory + (im * Tile::FILTERS + lane * FT) * APART + strip * TW;
#pragma unroll
    for (int j = 0; j < FT; ++j)
#pragma unroll
        for (int i = 0; i < TW; ++i) {
            float most = 0;
#pragma unroll
            for (int k = 0; k < 4; ++k)
                most = max_nan(
                    most, (tile.of[k / 2][2 * i + k % 2][j] + offset[j]) * scale[j] + shift[j]);
            at[j * APART + i] = most;
        }
    __syncthreads();
    int rows = min(WY, p.pooled_rows - tile_y * WY),
        columns = min(TW, p.pooled_columns - tile_x * TW);
    for (int e = threadIdx.x; e < IM * Tile::FILTERS * AREA; e += Tile::THREADS) {
        int column = e % TW, row = e / TW % WY, f = e / AREA % Tile::FILTERS,
            i = e / (AREA * Tile::FILTERS);
        if (row < rows && column < columns && f0 + f < p.filters && image + i < p.images)
            out[(((long long)(image + i) * p.filters + f0 + f) * p.pooled_rows + tile_y * WY +
                 row) *
                    p.pooled_columns +
                tile_x * TW + column] =
                to<T>(memory[(i * Tile::FILTERS + f) * APART + row * TW + column]);
    }
}
