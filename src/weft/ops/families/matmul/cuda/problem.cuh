// The problem of a matrix product, the activation of a result, and the tile of a block.
#pragma once
#include <weft/math.cuh>
#include <weft/problem.cuh>

using namespace weft;

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
    int constant;  // no kernel before writes A: copies of it begin before they have ended
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

// gelu for results that are rounded to 16 bits: relu(x) - |x| / 2 (1 - erf(|x| / sqrt(2))), which
// has no branches and no cancellation; the last factor by Abramowitz and Stegun 7.1.26. It is 0 in
// single precision from 16 on, where infinity times 0 would be no number.
__device__ inline float short_gelu(float x) {
    float a = fminf(fabsf(x), 16), t = reciprocal_approx(1 + 0.23164189f * a);
    float half = 0.127414796f +
                 t * (-0.142248368f + t * (0.710706871f + t * (-0.726576014f + t * 0.530702715f)));
    return max_nan(x, 0.0f) - a * (t * half) * exp2_approx(-0.72134752f * a * a);
}

// x / (1 + exp(-u)), with u times log2(e).
__device__ inline float short_logistic_part(float x, float scaled) {
    return x * reciprocal_approx(1 + exp2_approx(-scaled));
}

// An activation, for results that are rounded to 16 bits. Few instructions: all warps of an SM
// compute it at once, and nothing else beside it.
template <int ACTIVATION>
__device__ float short_activated(float x) {
    if constexpr (ACTIVATION == 1) return max_nan(x, 0.0f);
    if constexpr (ACTIVATION == 2) return short_gelu(x);
    if constexpr (ACTIVATION == 3) return short_logistic_part(x, 1.44269504f * x);  // silu
    if constexpr (ACTIVATION == 4)  // gelu by tanh: (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u))
        return short_logistic_part(x, x * (2.30220818f + 0.102943240f * x * x));
    return activated<ACTIVATION>(x);
}

// What a block computes. It is read anew after the loop over K, where registers are free again: the
// compiler must not keep it meanwhile.
struct Place {
    int tile, split, row, column;
    long long batch;

    // SPLIT: blocks share the K of a tile.
    template <int BM, int BN, bool SPLIT = true>
    __device__ static Place here(const Problem& p) {
        int3 block = reread_block_index();
        int tiles = p.tiles_m * p.tiles_n, split = SPLIT ? block.x / tiles : 0;
        int tile = block.x - split * tiles;
        int2 at = tile_in_bands(tile, p.tiles_m, p.tiles_n);
        return {tile, split, at.x * BM, at.y * BN, block.y + (long long)block.z * gridDim.y};
    }
};
