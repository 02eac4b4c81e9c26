// Reductions over groups of G threads: a part of a warp, a warp, or a block of G threads.
#pragma once

// The larger one, or NaN if either is.
__device__ inline float larger(float a, float b) {
    float m;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
    return m;
}
__device__ inline float lowest() { return __int_as_float(0xff800000); }
__device__ inline float plus(float a, float b) { return a + b; }

// Keeps the compiler from deducing T of an argument: the other one decides.
template <class T> struct Plain {
    using Type = T;
};

// The combination of all values of a group, in every thread of it. All threads of the block take
// part.
template <int G, class T, class Join>
__device__ T across(T v, typename Plain<T>::Type start, Join join) {
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
