// silu(gate) * up of vectors.
#pragma once
#include <weft/convert.cuh>
#include <weft/math.cuh>

using namespace weft;

// 1 / (1 + exp(-x)); for results of two bytes by fast instructions.
template <class T>
__device__ float logistic(float x) {
    if constexpr (sizeof(T) > 2) return 1 / (1 + expf(-x));
    else return reciprocal_approx(1 + exp2_approx(-1.44269504f * x));
}

template <class T, int V>
__device__ Vector<T, V> gated(const Vector<T, V>& gate, const Vector<T, V>& up) {
    Vector<float, V> a = to_floats(gate), b = to_floats(up);
#pragma unroll
    for (int j = 0; j < V; j++) a[j] = a[j] * logistic<T>(a[j]) * b[j];
    return from_floats<T>(a);
}
