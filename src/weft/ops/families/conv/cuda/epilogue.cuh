// Completion of the sums of target channels: a bias; or also batch norm with given statistics, a
// residual and ReLU.
#pragma once
#include <weft/convert.cuh>
#include <weft/math.cuh>
#include <weft/vector.cuh>

using namespace weft;

// Adds a bias, if there is one.
template <class T>
struct BiasEpilogue {
    const T* bias;

    struct Channel {
        float add;

        __device__ float operator()(float sum) const { return sum + add; }
    };
    // The channels from `first` on.
    __device__ BiasEpilogue from(int first) const { return {bias ? bias + first : bias}; }
    // Channel c of `count`; those behind have no results.
    __device__ Channel channel(int c, int count) const {
        return {bias && c < count ? to<float>(bias[c]) : 0};
    }
    // What is stored at `at` for rounded results.
    template <int N>
    __device__ Vector<T, N> stored(const T* at, const Vector<T, N>& v) const {
        return v;
    }
    template <int N>
    __device__ void write(T* at, const Vector<T, N>& v) const {
        store(at, v);
    }
};

// f((sum + bias - mean) / sqrt(var + eps) * weight + shift + residual), where f is ReLU or nothing.
// S, W: types of statistics and of parameters. All may be null; without a mean there is no norm.
// The residual has the places of the result y.
template <class T, class S, class W>
struct FusedEpilogue {
    const T *bias, *residual;
    const S *mean, *var;
    const W *weight, *shift;
    float eps;
    int relu;
    const T* y;

    struct Channel {
        float factor, add;

        __device__ float operator()(float sum) const { return fmaf(sum, factor, add); }
    };
    __device__ FusedEpilogue from(int first) const {
        FusedEpilogue rest = *this;
        if (bias) rest.bias += first;
        if (mean) rest.mean += first, rest.var += first;
        if (weight) rest.weight += first;
        if (shift) rest.shift += first;
        return rest;
    }
    __device__ Channel channel(int c, int count) const {
        if (c >= count) return {0, 0};
        float add = bias ? to<float>(bias[c]) : 0;
        if (!mean) return {1, add};
        float factor = rsqrtf(to<float>(var[c]) + eps) * (weight ? to<float>(weight[c]) : 1);
        return {factor, fmaf(add - to<float>(mean[c]), factor, shift ? to<float>(shift[c]) : 0)};
    }
    template <int N>
    __device__ Vector<T, N> stored(const T* at, const Vector<T, N>& v) const {
        Vector<float, N> f = to_floats(v);
        if (residual) {
            Vector<float, N> more = to_floats(load<N>(residual + (at - y)));
#pragma unroll
            for (int i = 0; i < N; ++i) f[i] += more[i];
        }
#pragma unroll
        for (int i = 0; i < N; ++i) f[i] = relu ? max_nan(f[i], 0.0f) : f[i];
        return from_floats<T>(f);
    }
    template <int N>
    __device__ void write(T* at, const Vector<T, N>& v) const {
        store_whole(at, stored(at, v));
    }
};

// Parameters of a kernel of elements T that make a FusedEpilogue of y; its template has the types
// Statistic and Parameter.
#define FUSED                                                                      \
    const T *bias, const T *residual, const Statistic *mean, const Statistic *var, \
        const Parameter *scale, const Parameter *shift, float eps, int relu
#define OF_FUSED(y) \
    FusedEpilogue<T, Statistic, Parameter> { bias, residual, mean, var, scale, shift, eps, relu, y }
