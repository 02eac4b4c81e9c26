// Vectors of 1 to 16 bytes in registers, and conversions between element types.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T, int N>
struct alignas(sizeof(T) * N <= 16 ? sizeof(T) * N : 16) Vector {
    T at[N];
    __device__ T& operator[](int i) { return at[i]; }
    __device__ const T& operator[](int i) const { return at[i]; }
};

// The address must be a multiple of the vector's size (of 16 bytes where it is larger).
template <int N, class T>
__device__ Vector<T, N> load(const T* p) {
    return *reinterpret_cast<const Vector<T, N>*>(p);
}

template <class T, int N>
__device__ void store(T* p, const Vector<T, N>& v) {
    *reinterpret_cast<Vector<T, N>*>(p) = v;
}

// Stores a vector to global memory by one instruction; the compiler may split store() where its
// elements are computed one by one.
template <class T, int N>
__device__ void store_whole(T* p, const Vector<T, N>& v) {
    constexpr int BYTES = N * sizeof(T);
    const unsigned* word = reinterpret_cast<const unsigned*>(&v);
    size_t at = __cvta_generic_to_global(p);
    if constexpr (BYTES == 16)
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(word[0]),
                     "r"(word[1]), "r"(word[2]), "r"(word[3]));
    else if constexpr (BYTES == 8)
        asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(word[0]), "r"(word[1]));
    else if constexpr (BYTES == 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(word[0]));
    else store(p, v);
}

// N equal elements; written as words, which the compiler then selects as such.
template <int N, class T>
__device__ Vector<T, N> filled(T one) {
    Vector<T, N> v;
    if constexpr (sizeof(T) == 2 && N % 2 == 0) {
        unsigned word = *reinterpret_cast<unsigned short*>(&one) * 0x10001u;
#pragma unroll
        for (int i = 0; i < N / 2; i++) reinterpret_cast<unsigned*>(&v)[i] = word;
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = one;
    }
    return v;
}

// The 16 bytes that begin `bytes` after the first of `low`: an even number below 16.
__device__ inline uint4 funnel(uint4 low, uint4 high, unsigned bytes) {
    unsigned w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 6; ++i) w[i] = bytes & 8 ? w[i + 2] : w[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) w[i] = bytes & 4 ? w[i + 1] : w[i];
    unsigned bits = bytes % 4 * 8;
    return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                      __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
}

template <int N, class T>
__device__ Vector<T, N> broadcast(const T* p) {
    return filled<N>(*p);
}

template <class To, class From>
__device__ To to(From x) {
    return static_cast<To>(x);
}
template <> __device__ inline float to<float, __half>(__half x) { return __half2float(x); }
template <> __device__ inline float to<float, __nv_bfloat16>(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
template <> __device__ inline __half to<__half, float>(float x) { return __float2half_rn(x); }
template <> __device__ inline __nv_bfloat16 to<__nv_bfloat16, float>(float x) {
    return __float2bfloat16_rn(x);
}
