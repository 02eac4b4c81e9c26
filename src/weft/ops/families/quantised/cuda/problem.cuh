// The parts of weight-only products that their kernels share: scales of groups, and results.
#pragma once
#include <weft/convert.cuh>
#include <weft/dequantise.cuh>
#include <weft/early_launch.cuh>
#include <weft/problem.cuh>
#include <weft/warp.cuh>

using namespace weft;

STRUCT_QUANTISEDPROBLEM  // see structs.py

    // Returns the number of the group that k, less than p.K, is in.
    __device__ inline int group_of(int k, const QuantisedProblem& p) {
    return p.groups > 1 ? quotient(k, p.magic, p.shift) : 0;
}

// Returns row n of a weight.
__device__ inline const unsigned char* row_of(const void* weight, const QuantisedProblem& p,
                                              int n) {
    return static_cast<const unsigned char*>(weight) + n * p.weight_row;
}

// The scale and the zero point of a group of row n.
template <class S>
struct Group {
    float scale, zero;

    __device__ void read(const S* scales, const S* zeros, const QuantisedProblem& p, int n,
                         int group) {
        scale = to<float>(scales[n * p.scale_n + group * p.scale_group]);
        zero = zeros ? to<float>(zeros[n * p.zero_n + group * p.zero_group]) : 0;
    }
    // Returns the sum of x (q - zero) scale from the sums of x q and of x.
    __device__ float sum(float products, float ones) const {
        return scale * (products - zero * ones);
    }
};

// Reads EACH weights of a row from k on: one, or the eight of an aligned word or two.
template <Weights F, int EACH>
__device__ inline Vector<float, EACH> read_weights(const unsigned char* row, int k) {
    const unsigned char* at = row + (F == Weights::INT4 ? k / 2 : k);
    unsigned from[2] = {}, words[4];
    if constexpr (EACH == 8) {
        auto eight = load_once<WEIGHT_WORDS<F>>(reinterpret_cast<const unsigned*>(at));
#pragma unroll
        for (int w = 0; w < WEIGHT_WORDS<F>; ++w) from[w] = eight[w];
    } else {
        from[0] = F == Weights::INT4 ? *at >> k % 2 * 4 : *at;
    }
    Dequantiser<F, __half>().convert(words, from);
    Vector<float, EACH> weights;
#pragma unroll
    for (int i = 0; i < EACH; ++i) weights[i] = weight_at<F>(words, i);
    return weights;
}

// A word of two ones. The product with a fragment of ones is the sum of x, which zero points need.
template <class T>
constexpr unsigned ONES = 0x3c003c00;
template <>
constexpr unsigned ONES<__nv_bfloat16> = 0x3f803f80;

// Stores result n of token m, with its bias.
template <class T>
__device__ inline void finish(T* y, const T* bias, const QuantisedProblem& p, int m, int n,
                              float value) {
    if (bias) value += to<float>(bias[n * p.bias_n]);
    y[m * (long long)p.N + n] = to<T>(value);
}
