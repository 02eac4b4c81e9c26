// What the kernels of matrix products share: the problem, what happens to a result, and the place
// of a block.
#pragma once

// Everything about a product that its kernels need. Strides are in elements.
struct Problem {
    int M, N, K, splits, each;             // K is cut into `splits` parts of `each`
    int batch;  // products; a grid may have more, as its dimensions along y and z are limited
    long long lda, ldb;  // the strides of A and B that are not 1
    long long row_a, column_a;  // both strides of A, for the kernels of a few rows
    long long batch_a, batch_b, batch_c;  // from one product of the batch to the next
    long long row_c, column_c;  // of C
    long long row_bias, column_bias, batch_bias;
    int tiles_m, tiles_n;
};

template <int ACTIVATION>
__device__ float activated(float x) {
    if constexpr (ACTIVATION == 1) return x < 0 ? 0 : x;  // relu; NaN stays
    if constexpr (ACTIVATION == 2) return 0.5f * x * (1 + erff(x * 0.70710678f));  // gelu
    if constexpr (ACTIVATION == 3) return x / (1 + __expf(-x));  // silu
    if constexpr (ACTIVATION == 4) {  // gelu by tanh
        float inner = 0.79788456f * (x + 0.044715f * x * x * x);
        return 0.5f * x * (1 + tanhf(inner));
    }
    return x;
}

template <int ACTIVATION>
__device__ void finish(float* C, const float* bias, const Problem& p, int m, int n, float value) {
    if (bias) value += bias[m * p.row_bias + n * p.column_bias];
    C[m * p.row_c + n * p.column_c] = activated<ACTIVATION>(value);
}

// The tile that a block computes: bands of eight rows of tiles, so that blocks that run together
// share A and B in the L2.
__device__ int2 in_bands(int index, int rows, int columns) {
    int band = index / (8 * columns), height = min(8, rows - band * 8),
        rest = index - band * 8 * columns;
    return make_int2(band * 8 + rest % height, rest / height);
}

// The number of a block's product in the batch, which may be past the last.
__device__ long long product_of_batch() { return blockIdx.y + (long long)blockIdx.z * gridDim.y; }

// What a block computes. It is read anew after the loop over K, where registers are free again: the
// compiler must not keep it meanwhile.
struct Place {
    int tile, split, row, column;
    long long batch;

    template <int BM, int BN>
    __device__ static Place here(const Problem& p) {
        int x, y, z;
        asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
        asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(y));
        asm volatile("mov.u32 %0, %%ctaid.z;" : "=r"(z));
        int tiles = p.tiles_m * p.tiles_n, tile = x % tiles;
        int2 at = in_bands(tile, p.tiles_m, p.tiles_n);
        return {tile, x / tiles, at.x * BM, at.y * BN, y + (long long)z * gridDim.y};
    }
};
