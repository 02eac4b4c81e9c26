// Functions that the rows of elementwise expressions use, for integers and floating-point numbers
// alike.
#pragma once
#include <weft/math.cuh>

template <class T> __device__ T absolute(T a) { return a < T(0) ? T(-a) : a; }
template <> __device__ inline float absolute(float a) { return fabsf(a); }
template <> __device__ inline double absolute(double a) { return fabs(a); }

// The larger or the smaller one, or NaN if either is.
template <class T> __device__ T maximum(T a, T b) { return a != a || a > b ? a : b; }
template <class T> __device__ T minimum(T a, T b) { return a != a || a < b ? a : b; }

// Integers by squaring; a negative exponent gives the integer part of the result.
template <class T>
__device__ T power(T a, T b) {
    if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 ? T(-1) : T(1)) : T(0);
    T result = 1;
    for (; b > T(0); b = T(b / 2)) {
        if (b % 2) result = T(result * a);
        a = T(a * a);
    }
    return result;
}
template <> __device__ inline float power(float a, float b) { return powf(a, b); }
template <> __device__ inline double power(double a, double b) { return pow(a, b); }

// 1 / a; in single precision by one instruction, with an error of one unit in the last place.
// `opaque` keeps it out of branches: the lanes of a warp rarely agree, and a select costs less.
__device__ inline float reciprocal(float a) {
    float r = weft::reciprocal_approx(a);
    weft::opaque(r);
    return r;
}
__device__ inline double reciprocal(double a) { return 1 / a; }

// 2 to the power of a, with a relative error of 2e-7, and log2(a), with an error of 3e-7, by one
// instruction each. Results below 1e-38 are 0.
__device__ inline float quick_exp2(float a) {
    float r = weft::exp2_approx(a);
    weft::opaque(r);
    return r;
}
__device__ inline float quick_log2(float a) {
    float r = weft::log2_approx(a);
    weft::opaque(r);
    return r;
}

// For large negative numbers exp(-a) is infinite, and the result 0.
template <class T> __device__ T sigmoid(T a) { return reciprocal(T(1) + exp(-a)); }
