// activation(gate) * up of vectors.
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

// The value of an activation and its slope.
struct Activated {
    float value, slope;
};

// An activation for results of type T; see swiglu.cu for others.
struct Silu {
    template <class T>
    __device__ static float value(float x) {
        return x * logistic<T>(x);
    }
    template <class T>
    __device__ static Activated with_slope(float x) {
        float s = logistic<T>(x);
        return {x * s, s * (1 + x * (1 - s))};
    }
};

template <class Activation, class T, int V>
__device__ Vector<T, V> gated(const Vector<T, V>& gate, const Vector<T, V>& up) {
    Vector<float, V> a = to_floats(gate), b = to_floats(up);
#pragma unroll
    for (int j = 0; j < V; j++) a[j] = Activation::template value<T>(a[j]) * b[j];
    return from_floats<T>(a);
}
