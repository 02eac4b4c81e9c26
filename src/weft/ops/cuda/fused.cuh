// What the kernels of weft.fuse use beside their own expressions.
#pragma once
#include "functions.cuh"
#include "vector.cuh"

template <class T> __device__ T infinity();
template <> __device__ inline float infinity() { return __int_as_float(0x7f800000); }
template <> __device__ inline double infinity() { return __longlong_as_double(0x7ff0000000000000ll); }
template <class T> __device__ T not_a_number();
template <> __device__ inline float not_a_number() { return __int_as_float(0x7fc00000); }
template <> __device__ inline double not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }

struct plus {
    template <class T> __device__ T operator()(T a, T b) const { return a + b; }
};
struct larger {
    template <class T> __device__ T operator()(T a, T b) const { return maximum<T>(a, b); }
};
struct smaller {
    template <class T> __device__ T operator()(T a, T b) const { return minimum<T>(a, b); }
};

// x / size is quotient(x, magic, shift), for x that is not negative.
__device__ inline int quotient(int x, int magic, int shift) { return int(__umulhi(x, magic) >> shift); }
__device__ inline long long quotient(long long x, long long magic, long long shift) {
    return (long long)(__umul64hi(x, magic) >> shift);
}

// The combination of the values of G threads, in every one of them. All threads of the block take part. G is a part of a
// warp, a warp, or the block.
template <int G, class T, class Join>
__device__ T across(T v, T start, Join join) {
    constexpr int LANES = G < 32 ? G : 32;
#pragma unroll
    for (int d = LANES / 2; d > 0; d /= 2) v = join(v, __shfl_xor_sync(~0u, v, d));
    if constexpr (G > 32) {
        __shared__ T part[G / 32];
        __syncthreads();  // the values of the reduction before have been read
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
        __syncthreads();
        v = threadIdx.x % 32 < G / 32 ? part[threadIdx.x % 32] : start;
#pragma unroll
        for (int d = 16; d > 0; d /= 2) v = join(v, __shfl_xor_sync(~0u, v, d));
    }
    return v;
}
