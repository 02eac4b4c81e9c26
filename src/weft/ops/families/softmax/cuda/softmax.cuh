// Softmax and log-softmax of elements, given the maximum and the sum of exponentials of their row.
#pragma once
#include <weft/row.cuh>

using namespace weft;

// The number that exponentials are relative to. Where all elements are -inf the result is NaN, as 0
// / 0.
__device__ inline float base(float most) { return most == lowest() ? 0 : most; }

template <bool LOG>
__device__ float result(float x, float from, float scale) {
    return LOG ? x - from - scale : __expf(x - from) * scale;
}
// The second argument of `result`: 1 / sum, or its logarithm.
template <bool LOG>
__device__ float scale_of(float sum) {
    return LOG ? logf(sum) : 1 / sum;
}

template <class T, int V>
__device__ float top(const Packed<T, V>& v, float most) {
#pragma unroll
    for (int j = 0; j < V; j++) most = max_nan(most, v[j]);
    return most;
}
template <class T, int V>
__device__ float sum_of(const Packed<T, V>& v, float from, float sum) {
#pragma unroll
    for (int j = 0; j < V; j++) sum += __expf(v[j] - from);
    return sum;
}
template <bool LOG, class T, int V>
__device__ Packed<T, V> results(const Packed<T, V>& v, float from, float scale) {
    return v.map([&](float x, int) { return result<LOG>(x, from, scale); });
}

// The maximum of a thread's elements and the sum of their exponentials relative to it.
struct Running {
    float most = lowest(), sum = 0;

    __device__ void add(float m, float s) {
        float up = max_nan(most, m);
        sum = (most == up ? sum : sum * __expf(most - up)) + (m == up ? s : s * __expf(m - up));
        most = up;
    }
    template <class T, int V>
    __device__ void add(const Packed<T, V>& v) {
        float m = top(v, lowest());
        add(m, sum_of(v, base(m), 0));
    }
};
