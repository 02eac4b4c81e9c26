// Activations and their derivatives, in single or double precision. A derivative of x takes the
// activation's input; one of y takes its output.
#pragma once
#include "../../../core/cuda/functions.cuh"

// exp for a result of type O: for half precision with a relative error of 5e-6 at most.
template <class O> __device__ float quick_exp(float x) {
    if constexpr (sizeof(O) > 2) return expf(x);
    else return quick_exp2(1.442695f * x);
}
template <class O> __device__ double quick_exp(double x) { return exp(x); }

template <class T> __device__ T clamped(T x, T low, T high) {
    return minimum<T>(maximum<T>(x, low), high);
}

// The integral of the standard normal distribution up to x, and its density. In single precision it
// is a polynomial of x near 0; the tail beyond |x| is exp(-x x / 2) times a polynomial of r = 1 /
// (1 + K |x|). This is not 1 less something, so gelu keeps its digits for negative x. The relative
// error is 5e-8; it is 4e-5 where the result is to be rounded to half precision.
template <bool EXACT>
struct Normal {
    float below, density;
    __device__ explicit Normal(float x) {
        float a = fabsf(x), z = a * a,
              e = EXACT ? exp2f(-0.72134752f * z) : quick_exp2(-0.72134752f * z), p;
        float r = reciprocal(1 + (EXACT ? 0.5f : 0.38f) * a);
        if constexpr (EXACT) {
            p = -0.12840834f * r + 0.37607484f;
            p = p * r - 0.34358843f;
            p = p * r + 0.007379093f;
            p = p * r + 0.038020475f;
            p = p * r + 0.15067028f;
            p = p * r + 0.1994313f;
            p = p * r + 0.1994712f;
        } else {
            p = -0.08992923f * r + 0.18887861f;
            p = p * r + 0.09197795f;
            p = p * r + 0.15783007f;
            p = p * r + 0.15122507f;
        }
        float tail = p * r * e;
        below = x > 0 ? 1 - tail : tail;
        if constexpr (EXACT) {
            p = -7.654206e-06f * z + 0.00011348637f;
            p = p * z - 0.00118633f;
            p = p * z + 0.009973323f;
            p = p * z - 0.06649036f;
            p = p * z + 0.39894228f;
            below = a < 1 ? 0.5f + x * p : below;
        }
        density = 0.3989423f * e;
    }
};
struct NormalDouble {
    double below, density;
    __device__ explicit NormalDouble(double x)
        : below(normcdf(x)), density(0.3989422804014327 * exp(-0.5 * x * x)) {}
};
template <class O> __device__ Normal<(sizeof(O) > 2)> normal(float x) {
    return Normal<(sizeof(O) > 2)>(x);
}
template <class O> __device__ NormalDouble normal(double x) { return NormalDouble(x); }

// For results of type O.
template <class O, class T> __device__ T gelu(T x) { return x * normal<O>(x).below; }
template <class O, class T> __device__ T gelu_slope(T x) {
    auto n = normal<O>(x);
    return n.below + x * n.density;
}

// log(1 + u) for u from 0 to 1: by the series of 2 atanh(u / (2 + u)). For half precision by the
// logarithm, and near 0 by its series.
template <class O> __device__ float log1p_unit(float u) {
    if constexpr (sizeof(O) > 2) {
        float s = u * reciprocal(2 + u), z = s * s, p = z * (1.0f / 13) + 1.0f / 11;
        p = p * z + 1.0f / 9;
        p = p * z + 1.0f / 7;
        p = p * z + 1.0f / 5;
        p = p * z + 1.0f / 3;
        return 2 * (s + s * z * p);
    } else {
        float logarithm = 0.6931472f * quick_log2(1 + u);
        return u < 0.004f ? u - 0.5f * u * u : logarithm;
    }
}
template <class O> __device__ double log1p_unit(double u) { return log1p(u); }
// exp(x) - 1 for x up to 0: near 0 by its series.
template <class O> __device__ float expm1_negative(float x) {
    float e = quick_exp<O>(x) - 1, p = 1.0f / 6;
    if constexpr (sizeof(O) > 2) {
        p = x * (1.0f / 40320) + 1.0f / 5040;
        p = p * x + 1.0f / 720;
        p = p * x + 1.0f / 120;
        p = p * x + 1.0f / 24;
        p = p * x + 1.0f / 6;
    }
    p = p * x + 0.5f;
    return x > (sizeof(O) > 2 ? -0.5f : -0.06f) ? x + x * x * p : e;
}
template <class O> __device__ double expm1_negative(double x) { return expm1(x); }

// tanh for a result of type O: half precision needs fewer digits.
template <class O, class T> __device__ T hyperbolic(T x) {
    if constexpr (sizeof(O) == 2) {
        T z = x * x, near_zero = x + x * z * (T(-1.0 / 3) + z * T(2.0 / 15));
        T far = T(1) - T(2) * reciprocal(T(1) + quick_exp<O>(T(2) * x));
        return z < T(0.04) ? near_zero : far;
    } else {
        return tanh(x);
    }
}

// (1 + tanh(u)) / 2 is sigmoid(2 u), which keeps its digits where tanh is near -1.
constexpr double GELU_LINEAR = 1.5957691216057308, GELU_CUBIC = 0.044715;
template <class T> __device__ T gelu_exponent(T x) {
    return T(-GELU_LINEAR) * x - T(GELU_LINEAR * GELU_CUBIC) * x * x * x;
}
template <class O, class T> __device__ T gelu_gate(T x) {
    return reciprocal(T(1) + quick_exp<O>(gelu_exponent(x)));
}
template <class O, class T> __device__ T gelu_tanh(T x) { return x * gelu_gate<O>(x); }
template <class O, class T> __device__ T gelu_tanh_slope(T x) {
    // 1 - gate is e * gate. The difference has few digits for large x, and its factor is large
    // there.
    T exponent = gelu_exponent(x), e = quick_exp<O>(exponent), gate = reciprocal(T(1) + e);
    T slope = gate + x * gate * (e * gate) * (T(GELU_LINEAR) * (T(1) + T(3 * GELU_CUBIC) * x * x));
    return exponent > T(sizeof(T) == 8 ? 700 : 80) ? x * T(0) : slope;  // where e overflows
}

template <class O, class T> __device__ T silu(T x) {
    return x * reciprocal(T(1) + quick_exp<O>(-x));
}
template <class T> __device__ T silu_slope(T x) {
    T gate = sigmoid<T>(x);
    return gate * (T(1) + x * (T(1) - gate));
}

template <class O, class T> __device__ T softplus(T x, T beta, T threshold) {
    T z = x * beta,
      bent = (maximum<T>(z, T(0)) + log1p_unit<O>(quick_exp<O>(-absolute<T>(z)))) * (T(1) / beta);
    return z > threshold ? x : bent;
}
template <class T> __device__ T softplus_slope(T x, T beta, T threshold) {
    return x * beta > threshold ? T(1) : sigmoid<T>(x * beta);
}

template <class O, class T> __device__ T logsigmoid(T x) {
    return minimum<T>(x, T(0)) - log1p_unit<O>(quick_exp<O>(-absolute<T>(x)));
}

// alpha expm1(rate x) below 0, else x; `scale` times all of it.
template <class O, class T> __device__ T elu(T x, T alpha, T scale, T rate) {
    T below = scale * alpha * (rate > T(0) ? expm1_negative<O>(x * rate) : expm1(x * rate));
    return x > T(0) ? scale * x : below;
}
template <class T> __device__ T elu_slope(T x, T alpha, T scale, T rate) {
    return x <= T(0) ? scale * alpha * rate * exp(x * rate) : scale;
}
constexpr double SELU_ALPHA = 1.6732632423543772, SELU_SCALE = 1.0507009873554805;

// tanh(softplus(x)) is n / (n + 2) with n = e (e + 2); from x = 20 on it rounds to 1.
template <class O, class T> __device__ T mish(T x) {
    T e = quick_exp<O>(x), n = e * (e + T(2)), gate = n * reciprocal(n + T(2));
    return x * (x > T(20) ? T(1) : gate);
}
template <class T> __device__ T mish_slope(T x) {
    T e = exp(x), n = e * (e + T(2)), r = reciprocal(n + T(2));
    bool large = x > T(20);
    T gate = large ? T(1) : n * r;
    T bend = large ? T(0) : T(4) * e * (T(1) + e) * r * r;  // the derivative of the gate
    return gate + x * bend;
}

template <class T> __device__ T hardsigmoid(T x) {
    return clamped<T>(x + T(3), T(0), T(6)) * T(1.0 / 6);
}
template <class T> __device__ T hardswish(T x) {
    return x * clamped<T>(x + T(3), T(0), T(6)) * T(1.0 / 6);
}
template <class T> __device__ T softsign_slope(T x) {
    T r = reciprocal(T(1) + absolute<T>(x));
    return r * r;
}
