// Functions of the kernels of weft.fuse beside their own expressions.
#pragma once
#include "../../families/activation/cuda/activations.cuh"
#include "../../core/cuda/functions.cuh"
#include "../../core/cuda/group.cuh"
#include "../../core/cuda/operations.cuh"
#include "../../core/cuda/quotient.cuh"
#include "../../core/cuda/vector.cuh"

template <class T> __device__ T not_a_number();
template <> __device__ inline float not_a_number() { return __int_as_float(0x7fc00000); }
template <> __device__ inline double not_a_number() {
    return __longlong_as_double(0x7ff8000000000000ll);
}

// a / b with an error of two units in the last place.
__device__ inline float quick_quotient(float a, float b) {
    float q;
    asm("div.full.f32 %0, %1, %2;" : "=f"(q) : "f"(a), "f"(b));
    return q;
}

// N elements from p on, where p is S elements behind a multiple of the vector's size: a part of two
// vectors.
template <int N, int S, class T>
__device__ Vector<T, N> load_between(const T* p) {
    Vector<T, N> first = load<N>(p - S), second = load<N>(p - S + N), v;
#pragma unroll
    for (int k = 0; k < N; k++) v[k] = k + S < N ? first[k + S] : second[k + S - N];
    return v;
}
