// Keys in parts, for few queries: blocks write partial results, and the last block of a tile combines them.
#pragma once
#include "../last.cuh"
#include "softmax.cuh"

// Partial results of a part of the keys: o[BM][HEAD], then the logarithms of the sums.
template <int HEAD, int BM>
struct Partial {
    static constexpr int SIZE = BM * (HEAD + 1);
    float* base;
    __device__ float* row(int r) const { return base + r * HEAD; }
    __device__ float* log(int r) const { return base + BM * HEAD + r; }
};

// A warp combines the parts of ROWS rows from `r` on. The loads of all rows are in flight together: one row after another
// would wait for memory most of the time. Lane i has the weights of parts i and i + 32, the most there are. WRITE(row, column, result) stores a result,
// LOG(row, sum) the logarithm of a sum to base 2.
template <int HEAD, int BM, int ROWS, class Write, class Log>
__device__ void combine(const float* parts, int count, int r, int rows, Write write, Log log) {
    constexpr int EACH = (HEAD + 31) / 32;
    Partial<HEAD, BM> part{const_cast<float*>(parts)};
    int lane = threadIdx.x % 32;
    float weight[2][ROWS], base[ROWS], sum[ROWS], value[ROWS][EACH] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int u = 0; u < ROWS; ++u) {
            int i = h * 32 + lane;
            weight[h][u] = i < count && r + u < rows ? __ldcg(part.log(r + u) + i * part.SIZE) : NONE;
        }
#pragma unroll
    for (int u = 0; u < ROWS; ++u) {
        base[u] = fmaxf(weight[0][u], weight[1][u]);
        for (int step = 16; step; step /= 2) base[u] = fmaxf(base[u], __shfl_xor_sync(~0u, base[u], step));
        if (base[u] == NONE) base[u] = 0;
#pragma unroll
        for (int h = 0; h < 2; ++h) weight[h][u] = h * 32 + lane < count ? exp2_fast(weight[h][u] - base[u]) : 0;
        sum[u] = weight[0][u] + weight[1][u];
        for (int step = 16; step; step /= 2) sum[u] += __shfl_xor_sync(~0u, sum[u], step);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h)
        for (int i = h * 32; i < min(count, h * 32 + 32); ++i)
#pragma unroll
            for (int u = 0; u < ROWS; ++u) {
                float w = __shfl_sync(~0u, weight[h][u], i % 32);
                if (r + u >= rows) break;
#pragma unroll
                for (int j = 0; j < EACH; ++j)
                    if (HEAD % 32 == 0 || j * 32 + lane < HEAD)
                        value[u][j] += w * __ldcg(part.row(r + u) + i * part.SIZE + j * 32 + lane);
            }
#pragma unroll
    for (int u = 0; u < ROWS; ++u) {
        if (r + u >= rows) break;
        float factor = sum[u] == 0 ? 0 : 1 / sum[u];
#pragma unroll
        for (int j = 0; j < EACH; ++j) write(r + u, j * 32 + lane, value[u][j] * factor);
        if (lane == 0) log(r + u, sum[u] == 0 ? NONE : base[u] + log2f(sum[u]));
    }
}

// The last block of a tile combines its parts; WRITE and LOG are those of `combine`.
template <int HEAD, int BM, int WARPS, class Write, class Log>
__device__ void finish_parts(const float* partial, int* counters, int number, int count, int rows, Write write, Log log) {
    constexpr int ROWS = HEAD > 128 ? 4 : 8;
    if (!is_last(counters + number, count)) return;
    const float* parts = partial + static_cast<long long>(number) * count * Partial<HEAD, BM>::SIZE;
    for (int r = threadIdx.x / 32 * ROWS; r < min(BM, rows); r += WARPS * ROWS)
        combine<HEAD, BM, ROWS>(parts, count, r, rows, write, log);
}
