// Scores and masks by expressions of the caller, which are macros: SCORE_EXPRESSION of a score and
// MASK_EXPRESSION, true for a key that a query sees. Both may name the batch `b`, the head of
// queries `h`, the query `q`, the key `k`, and tensors, which EXPRESSION_TENSORS declares.
#pragma once
#include <weft/convert.cuh>

#ifdef SCORE_EXPRESSION
STRUCT_EXPRESSIONSTRIDES;

// An element as a number to compute with.
template <class T>
__device__ T as_number(T x) {
    return x;
}
__device__ inline float as_number(__half x) { return to<float>(x); }
__device__ inline float as_number(__nv_bfloat16 x) { return to<float>(x); }

// A tensor that is indexed as an array: x[h][q].
template <class T, int DIMS>
struct Indexed {
    const T* at;
    const long long* steps;
    __device__ auto operator[](long long i) const {
        if constexpr (DIMS == 1) return as_number(at[i * steps[0]]);
        else return Indexed<T, DIMS - 1>{at + i * steps[0], steps + 1};
    }
};

struct Expression {
    const void* x[4];
    const ExpressionStrides& strides;

    __device__ float score(float score, int b, int h, int q, int k) const {
        EXPRESSION_TENSORS
        return SCORE_EXPRESSION;
    }
    __device__ bool mask(int b, int h, int q, int k) const {
        EXPRESSION_TENSORS
        return MASK_EXPRESSION;
    }
};

// The last parameters of a kernel, and its first statement: the expressions are its mask.
#define EXPRESSION_PARAMETERS                                         \
    , const void *x0, const void *x1, const void *x2, const void *x3, \
        const __grid_constant__ ExpressionStrides strides
#define TAKE_EXPRESSION(mask)                               \
    const Expression expression{{x0, x1, x2, x3}, strides}; \
    mask = &expression
#else
struct Expression {
    __device__ float score(float score, int, int, int, int) const { return score; }
    __device__ bool mask(int, int, int, int) const { return true; }
};
#define EXPRESSION_PARAMETERS
#define TAKE_EXPRESSION(mask)
#endif
