// Operations that reductions combine values by, and functions that are one instruction.
#pragma once
#include "packed.cuh"

namespace weft {

// Returns the larger value, or NaN if either is NaN; of equal ones the first.
template <class T>
__device__ inline T max_nan(T a, T b) {
    return b > a || b != b ? b : a;
}
template <>
__device__ inline float max_nan(float a, float b) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    float m;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
    return m;
#else
    return b > a || b != b ? b : a;
#endif
}

// Returns the smaller value, or NaN if either is NaN; of equal ones the first.
template <class T>
__device__ inline T min_nan(T a, T b) {
    return b < a || b != b ? b : a;
}
template <>
__device__ inline float min_nan(float a, float b) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    float m;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
    return m;
#else
    return b < a || b != b ? b : a;
#endif
}

// Returns the larger of each of two packed 16-bit elements, or NaN.
template <class T>
__device__ inline unsigned max_nan_packed(unsigned a, unsigned b) {
    return pack<T>(max_nan(unpack<T>(a, 0), unpack<T>(b, 0)),
                   max_nan(unpack<T>(a, 1), unpack<T>(b, 1)));
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
template <>
__device__ inline unsigned max_nan_packed<__half>(unsigned a, unsigned b) {
    unsigned m;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
    return m;
}
template <>
__device__ inline unsigned max_nan_packed<__nv_bfloat16>(unsigned a, unsigned b) {
    unsigned m;
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
    return m;
}
#endif

// Operations for warp_reduce, block_reduce and scans: a + b, and the larger and smaller one or NaN.
struct Plus {
    template <class T>
    __device__ T operator()(T a, T b) const {
        return a + b;
    }
};
struct Maximum {
    template <class T>
    __device__ T operator()(T a, T b) const {
        return max_nan(a, b);
    }
};
struct Minimum {
    template <class T>
    __device__ T operator()(T a, T b) const {
        return min_nan(a, b);
    }
};

// Returns -infinity, which Maximum ignores.
__device__ inline float lowest() { return __int_as_float(0xff800000); }

// Returns 2 to the power of x, with a relative error below 2e-7; results below 1.2e-38 are 0.
__device__ inline float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Returns log2(x), with an error below 3e-7, relative where x is not near 1; subnormal x are 0.
__device__ inline float log2_approx(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Returns 1 / x, with an error of one unit in the last place; subnormal x and results are 0.
__device__ inline float reciprocal_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Returns the square root of x, with a relative error below 2e-7.
__device__ inline float sqrt_approx(float x) {
    float y;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Returns a / b, with an error of two units in the last place.
__device__ inline float divide_approx(float a, float b) {
    float q;
    asm("div.full.f32 %0, %1, %2;" : "=f"(q) : "f"(a), "f"(b));
    return q;
}

}  // namespace weft
