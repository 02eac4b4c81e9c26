// See fused.cuh.
#include "evaluate.cuh"

template <class T, class P, int R, int S, int LANES, int FT, int TW, int WY, int IM, int CC,
          int STAGES, int RESIDENT>
__global__ void __launch_bounds__(LANES * WY * IM, RESIDENT)
    inference(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias,
              const P* __restrict__ mean, const P* __restrict__ var, const P* __restrict__ gamma,
              const P* __restrict__ beta, T* __restrict__ out, float eps, const BlockShape p) {
    extern __shared__ __align__(16) float memory[];
    evaluate<T, P, R, S, LANES, FT, TW, WY, IM, CC, STAGES>(memory, x, w, bias, mean, var, gamma,
                                                            beta, out, eps, p);
}

// The convolution, and statistics of each block's pixels for each filter: parts[filter][block].
template <class T, int R, int S, int LANES, int FT, int TW, int WY, int IM, int CC, int STAGES,
          int RESIDENT>
__global__ void __launch_bounds__(LANES * WY * IM, RESIDENT)
    convolution(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias,
                T* __restrict__ y, float* __restrict__ parts, const BlockShape p) {
    using Tile = ConvTile<T, R, S, LANES, FT, TW, WY, IM, CC, STAGES>;
    extern __shared__ __align__(16) float memory[];
    __shared__ Moments moments[WY * IM][Tile::FILTERS];
    int lane = threadIdx.x % LANES, own = threadIdx.x / LANES, strip = own % WY, im = own / WY;
    int tile_x = blockIdx.x % p.tiles_x, tile_y = blockIdx.x / p.tiles_x % p.tiles_y;
    int image = blockIdx.x / (p.tiles_x * p.tiles_y) * IM, f0 = blockIdx.y * Tile::FILTERS;
    Tile tile;
    tile.run(memory, x, w, p, image, tile_y * 2 * WY - p.pad_y, tile_x * 2 * TW - p.pad_x, f0);
    int y0 = tile_y * 2 * WY, x0 = tile_x * 2 * TW;
    int real_rows = image + im < p.images ? max(0, min(2, p.rows - y0 - 2 * strip)) : 0;
    int real_columns = min(2 * TW, p.columns - x0);
    float count = real_rows * real_columns;
    // Statistics are those of the rounded results: the next kernel normalises them.
    constexpr int AREA = 4 * WY * TW, APART = AREA | 1;
    float* at = memory + (im * Tile::FILTERS + lane * FT) * APART + strip * 4 * TW;
#pragma unroll
    for (int j = 0; j < FT; ++j) {
        float add = or_else(bias, min(f0 + lane * FT + j, p.filters - 1), 0.0f), sum = 0,
              squares = 0;
#pragma unroll
        for (int k = 0; k < 4 * TW; ++k) {
            float v = to<float>(to<T>(tile.of[k / (2 * TW)][k % (2 * TW)][j] + add));
            at[j * APART + k] = v;
            tile.of[k / (2 * TW)][k % (2 * TW)][j] = v;
            sum += k / (2 * TW) < real_rows && k % (2 * TW) < real_columns ? v : 0.0f;
        }
        float mean = count ? sum / count : 0;
#pragma unroll
        for (int k = 0; k < 4 * TW; ++k) {
            float d = tile.of[k / (2 * TW)][k % (2 * TW)][j] - mean;
            squares += k / (2 * TW) < real_rows && k % (2 * TW) < real_columns ? d * d : 0.0f;
        }
        moments[own][lane * FT + j] = {count, mean, squares};
    }
    __syncthreads();
    for (int f = threadIdx.x; f < Tile::FILTERS && f0 + f < p.filters; f += Tile::THREADS) {
        Moments all = moments[0][f];
        for (int i = 1; i < WY * IM; ++i) all.join(moments[i][f]);
        float* part = parts + ((long long)(f0 + f) * gridDim.x + blockIdx.x) * 3;
        part[0] = all.count, part[1] = all.mean, part[2] = all.m2;
    }
    if (p.columns == 2 * TW && p.rows == 2 * WY &&
        sizeof(T) == 4) {  // whole planes: one run of memory for all filters
        int filters = min(Tile::FILTERS, p.filters - f0);
        for (int i = 0; i < IM && image + i < p.images; ++i) {
            T* plane = y + ((long long)(image + i) * p.filters + f0) * AREA;
            for (int e = threadIdx.x * 4; e < filters * AREA; e += Tile::THREADS * 4) {
                Vector<T, 4> v;
                const float* from = memory + (i * Tile::FILTERS + e / AREA) * APART + e % AREA;
#pragma unroll
                for (int k = 0; k < 4; ++k) v[k] = to<T>(from[k]);
                store(plane + e, v);
            }
        }
        return;
    }
    for (int e = threadIdx.x; e < IM * Tile::FILTERS * AREA; e += Tile::THREADS) {
        int column = e % (2 * TW), row = e / (2 * TW) % (2 * WY), f = e / AREA % Tile::FILTERS;
        int i = e / (AREA * Tile::FILTERS);
        if (y0 + row < p.rows && x0 + column < p.columns && f0 + f < p.filters &&
            image + i < p.images)
            y[(((long long)(image + i) * p.filters + f0 + f) * p.rows + y0 + row) * p.columns + x0 +
              column] = to<T>(memory[(i * Tile::FILTERS + f) * APART + row * 2 * TW + column]);
    }
}
