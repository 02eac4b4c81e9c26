// Vectors of 16-bit elements as floats, two elements at a time: the compiler keeps such a vector in
// as few registers as it has words, and converts two results in one instruction.
#pragma once
#include "../../../core/cuda/vector.cuh"

__device__ inline float2 halves(__nv_bfloat162, unsigned word) {
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000));
}
__device__ inline float2 halves(__half2, unsigned word) {
    return __half22float2(*reinterpret_cast<__half2*>(&word));
}
__device__ inline unsigned word_of(__nv_bfloat162, float a, float b) {
    __nv_bfloat162 both = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<unsigned*>(&both);
}
__device__ inline unsigned word_of(__half2, float a, float b) {
    __half2 both = __floats2half2_rn(a, b);
    return *reinterpret_cast<unsigned*>(&both);
}

template <class T> struct Pair {};
template <> struct Pair<__nv_bfloat16> {
    using Type = __nv_bfloat162;
};
template <> struct Pair<__half> {
    using Type = __half2;
};

template <int V>
struct Floats {
    float at[V];
    __device__ float& operator[](int i) { return at[i]; }
    __device__ float operator[](int i) const { return at[i]; }
};

template <class T, int V>
__device__ Floats<V> unpack(const Vector<T, V>& v) {
    Floats<V> f;
    if constexpr (sizeof(T) == 2 && V % 2 == 0) {
        auto* words = reinterpret_cast<const unsigned*>(&v);
#pragma unroll
        for (int i = 0; i < V / 2; i++) {
            float2 two = halves(typename Pair<T>::Type{}, words[i]);
            f[2 * i] = two.x, f[2 * i + 1] = two.y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < V; i++) f[i] = to<float>(v[i]);
    }
    return f;
}

template <class T, int V>
__device__ Vector<T, V> pack(const Floats<V>& f) {
    Vector<T, V> v;
    if constexpr (sizeof(T) == 2 && V % 2 == 0) {
        auto* words = reinterpret_cast<unsigned*>(&v);
#pragma unroll
        for (int i = 0; i < V / 2; i++)
            words[i] = word_of(typename Pair<T>::Type{}, f[2 * i], f[2 * i + 1]);
    } else {
#pragma unroll
        for (int i = 0; i < V; i++) v[i] = to<T>(f[i]);
    }
    return v;
}
