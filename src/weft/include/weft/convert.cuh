// Conversions between the types of elements, and of whole vectors.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "math.cuh"
#include "packed.cuh"

namespace weft {

// Converts x to the type To; to fewer digits by rounding to the nearest, ties to even.
template <class To, class From>
__device__ inline To to(From x) {
    return static_cast<To>(x);
}
template <>
__device__ inline float to<float, __half>(__half x) {
    return __half2float(x);
}
template <>
__device__ inline float to<float, __nv_bfloat16>(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
template <>
__device__ inline __half to<__half, float>(float x) {
    return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 to<__nv_bfloat16, float>(float x) {
    return __float2bfloat16_rn(x);
}

// Types of 16 bits that pack() and unpack() know.
template <class T>
constexpr bool PACKS = false;
template <>
constexpr bool PACKS<__half> = true;
template <>
constexpr bool PACKS<__nv_bfloat16> = true;

// Converts a vector to floats, two 16-bit elements at a time: until then they stay packed.
template <class T, int N>
__device__ inline Vector<float, N> to_floats(const Vector<T, N>& v) {
    Vector<float, N> f;
#pragma unroll
    for (int i = 0; i < N; ++i)
        if constexpr (PACKS<T> && N % 2 == 0)
            f[i] = unpack<T>(reinterpret_cast<const unsigned*>(&v)[i / 2], i);
        else f[i] = to<float>(v[i]);
    return f;
}

// Converts floats to a vector of T, two 16-bit elements by one instruction.
template <class T, int N>
__device__ inline Vector<T, N> from_floats(const Vector<float, N>& f) {
    Vector<T, N> v;
#pragma unroll
    for (int i = 0; i < N; ++i)
        if constexpr (PACKS<T> && N % 2 == 0) {
            if (i % 2 == 0) reinterpret_cast<unsigned*>(&v)[i / 2] = pack<T>(f[i], f[i + 1]);
        } else {
            v[i] = to<T>(f[i]);
        }
    return v;
}

// Return the larger or the smaller value, or NaN if either is NaN; 0.0 is larger than -0.0.
template <>
__device__ inline __half max_nan(__half a, __half b) {
    return __hmax_nan(a, b);
}
template <>
__device__ inline __half min_nan(__half a, __half b) {
    return __hmin_nan(a, b);
}
template <>
__device__ inline __nv_bfloat16 max_nan(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __hmax_nan(a, b);
}
template <>
__device__ inline __nv_bfloat16 min_nan(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __hmin_nan(a, b);
}

// Returns the bits of an element of two or four bytes; the upper half of the former is 0.
template <class T>
__device__ inline unsigned bits_of(T x) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "two or four bytes");
    if constexpr (sizeof(T) == 2) return *reinterpret_cast<unsigned short*>(&x);
    else return *reinterpret_cast<unsigned*>(&x);
}

}  // namespace weft
