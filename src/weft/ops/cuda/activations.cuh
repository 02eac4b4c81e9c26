// Activations and their derivatives, in single or double precision. A derivative of x takes the activation's input; one of
// y takes its output.
#pragma once
#include "functions.cuh"

template <class T> __device__ T clamped(T x, T low, T high) { return minimum<T>(maximum<T>(x, low), high); }

// The standard normal distribution: its integral up to x, and its density.
__device__ inline float normal_below(float x) { return normcdff(x); }
__device__ inline double normal_below(double x) { return normcdf(x); }
template <class T> __device__ T normal_density(T x) { return T(0.3989422804014327) * exp(T(-0.5) * x * x); }

template <class T> __device__ T gelu(T x) { return x * normal_below(x); }
template <class T> __device__ T gelu_slope(T x) { return normal_below(x) + x * normal_density(x); }

// (1 + tanh(u)) / 2 is sigmoid(2 u), which keeps its digits where tanh is near -1.
constexpr double GELU_LINEAR = 1.5957691216057308, GELU_CUBIC = 0.044715;
template <class T> __device__ T gelu_gate(T x) { return sigmoid<T>(T(GELU_LINEAR) * (x + T(GELU_CUBIC) * x * x * x)); }
template <class T> __device__ T gelu_tanh(T x) { return x * gelu_gate(x); }
template <class T> __device__ T gelu_tanh_slope(T x) {
    T gate = gelu_gate(x);
    return gate + x * gate * (T(1) - gate) * (T(GELU_LINEAR) * (T(1) + T(3 * GELU_CUBIC) * x * x));
}

template <class T> __device__ T silu(T x) { return x / (T(1) + exp(-x)); }
template <class T> __device__ T silu_slope(T x) {
    T gate = sigmoid<T>(x);
    return gate * (T(1) + x * (T(1) - gate));
}

template <class T> __device__ T softplus(T x, T beta, T threshold) {
    return x * beta > threshold ? x : log1p(exp(x * beta)) / beta;
}
template <class T> __device__ T softplus_slope(T x, T beta, T threshold) {
    T e = exp(x * beta);
    return x * beta > threshold ? T(1) : e / (e + T(1));
}

template <class T> __device__ T logsigmoid(T x) { return minimum<T>(x, T(0)) - log1p(exp(-absolute<T>(x))); }

// alpha expm1(rate x) below 0, else x; `scale` times all of it.
template <class T> __device__ T elu(T x, T alpha, T scale, T rate) {
    return x > T(0) ? scale * x : scale * alpha * expm1(x * rate);
}
template <class T> __device__ T elu_slope(T x, T alpha, T scale, T rate) {
    return x <= T(0) ? scale * alpha * rate * exp(x * rate) : scale;
}
constexpr double SELU_ALPHA = 1.6732632423543772, SELU_SCALE = 1.0507009873554805;

// tanh(softplus(x)) is n / (n + 2) with n = e (e + 2); from x = 20 on it rounds to 1.
template <class T> __device__ T mish(T x) {
    T e = exp(x), n = e * (e + T(2));
    return x * (x > T(20) ? T(1) : n / (n + T(2)));
}
template <class T> __device__ T mish_slope(T x) {
    T e = exp(x), n = e * (e + T(2)), half = T(2) / (n + T(2));
    bool large = x > T(20);
    T gate = large ? T(1) : n / (n + T(2));
    T bend = large ? T(0) : e * (T(1) + e) * half * half;  // the derivative of the gate
    return gate + x * bend;
}

template <class T> __device__ T hardsigmoid(T x) { return clamped<T>(x + T(3), T(0), T(6)) / T(6); }
template <class T> __device__ T hardswish(T x) { return x * clamped<T>(x + T(3), T(0), T(6)) / T(6); }
template <class T> __device__ T softsign_slope(T x) {
    T d = T(1) + absolute<T>(x);
    return T(1) / (d * d);
}
