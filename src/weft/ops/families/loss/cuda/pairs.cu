// Losses of pairs of numbers, x and t: none, their sum or their mean in one launch, and gradients
// in one.
//
// VALUE, DX and DT are expressions of the floats x, t, w (a weight of t, or 1) and `option`.
#include "classes.cuh"
#include "values.cuh"

STRUCT_PAIRS

__device__ inline float value_of([[maybe_unused]] float x, [[maybe_unused]] float t,
                                 [[maybe_unused]] float w, [[maybe_unused]] float option) {
    return VALUE;
}
template <bool OF_TARGET>
__device__ float gradient_of([[maybe_unused]] float x, [[maybe_unused]] float t,
                             [[maybe_unused]] float w, [[maybe_unused]] float option) {
    if constexpr (OF_TARGET) return DT;
    else return DX;
}

// f(x, t, i) for this thread's elements, a vector at a time; the rest one by one. With GAPS, rows
// are whole vectors, and x and t may have gaps between them.
template <class T, int V, bool GAPS, class F>
__device__ void for_each(const T* x, const T* t, const Pairs& p, F f) {
    long long stride = gridDim.x * 256ll * V;
    if constexpr (GAPS) {
        constexpr int N = V * sizeof(T) < 16 ? 4 : 2;  // vectors whose loads are under way together
        for (long long i = (blockIdx.x * 256ll + threadIdx.x) * V; i < p.n; i += N * stride) {
            Vector<T, V> vx[N], vt[N];
#pragma unroll
            for (int k = 0; k < N; k++) {
                long long at = i + k * stride;
                if (at >= p.n) continue;
                long long row = p.n < 1ll << 32 ? unsigned(at) / unsigned(p.row) : at / p.row;
                vx[k] = load<V>(x + at + row * p.x_gap), vt[k] = load<V>(t + at + row * p.t_gap);
            }
#pragma unroll
            for (int k = 0; k < N; k++)
                if (i + k * stride < p.n) f(vx[k], vt[k], i + k * stride);
        }
    } else {
        for (long long i = (blockIdx.x * 256ll + threadIdx.x) * V; i < p.n; i += stride) {
            if (i + V <= p.n) {
                f(load<V>(x + i), load<V>(t + i), i);
            } else {
                for (long long j = i; j < p.n; j++) f(load<1>(x + j), load<1>(t + j), j);
            }
        }
    }
}

template <class T>
__device__ float repeated(const T* weights, long long i, long long count) {
    return weights ? to<float>(weights[count == 1 ? 0 : i % count]) : 1;
}

// REDUCED: the sum of all, else one loss per pair.
template <class T, int V, bool GAPS, bool REDUCED>
__global__ void __launch_bounds__(256)
    losses(const T* x, const T* t, const T* weight, const T* second, T* y, float2* partials,
           int* counter, const Pairs p) {
    take_turn();
    float sum = 0;
    auto value = [&](float x, float t, long long i) {
        return value_of(x, t, repeated(second, i, p.second), p.option) *
               repeated(weight, i, p.weights);
    };
    for_each<T, V, GAPS>(x, t, p, [&](const auto& vx, const auto& vt, long long i) {
        constexpr int N = sizeof(vx) / sizeof(T);
        Vector<T, N> made;
#pragma unroll
        for (int j = 0; j < N; j++) {
            float one = value(to<float>(vx[j]), to<float>(vt[j]), i + j);
            if (REDUCED) sum += one;
            else made[j] = to<T>(one);
        }
        if (!REDUCED) store(y + i, made);
    });
    Classes as_sum{};
    as_sum.reduction = SUM;
    if (REDUCED) reduce_losses<256>(sum * p.scale, 0, partials, counter, y, as_sum);
}

// The gradient of x, or of t.
template <class T, int V, bool GAPS, bool OF_TARGET>
__global__ void __launch_bounds__(256)
    gradients(const T* upstream, const T* x, const T* t, const T* weight, const T* second, T* d,
              const Pairs p) {
    take_turn();
    const float shared = p.upstream_step ? 0 : to<float>(*upstream) * p.scale;
    auto gradient = [&](float x, float t, long long i) {
        float s =
            (p.upstream_step ? to<float>(upstream[i]) : shared) * repeated(weight, i, p.weights);
        return s * gradient_of<OF_TARGET>(x, t, repeated(second, i, p.second), p.option);
    };
    for_each<T, V, GAPS>(x, t, p, [&](const auto& vx, const auto& vt, long long i) {
        constexpr int N = sizeof(vx) / sizeof(T);
        Vector<T, N> made;
#pragma unroll
        for (int j = 0; j < N; j++)
            made[j] = to<T>(gradient(to<float>(vx[j]), to<float>(vt[j]), i + j));
        store(d + i, made);
    });
}
