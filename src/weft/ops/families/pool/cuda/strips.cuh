// Pooling by windows that overlap, where steps of windows cover whole rows: a thread has V windows
// of a row, and reads what they share once, in vectors.
#pragma once
#include "disjoint.cuh"

// BEFORE + N + AFTER neighbours of a row of `width` elements, of which N begin at `at`; `outside`
// beyond the row.
template <int BEFORE, int N, int AFTER, class C, class T>
__device__ void load_segment(C (&out)[BEFORE + N + AFTER], const T* row, int at, int width,
                             C outside) {
    T middle[N];
    load_row(middle, row + at);
#pragma unroll
    for (int k = 0; k < BEFORE; ++k)
        out[k] = at - BEFORE + k >= 0 ? to<C>(row[at - BEFORE + k]) : outside;
#pragma unroll
    for (int k = 0; k < N; ++k) out[BEFORE + k] = to<C>(middle[k]);
#pragma unroll
    for (int k = 0; k < AFTER; ++k)
        out[BEFORE + N + k] = at + N + k < width ? to<C>(row[at + N + k]) : outside;
}

// The positions that V windows of a row read beside the V * STEP positions from the first one's on.
template <class X, int V>
struct Strip {
    static constexpr int S = X::STEP, P = X::BEFORE, K = X::TAPS, N = V * S;
    static constexpr int AFTER = K - P - S > 0 ? K - P - S : 0, ALL = P + N + AFTER;
    // Windows beside the V ones that cover some of these positions.
    static constexpr int LEFT = (K - 1 - P) / S, RIGHT = (S - 1 + P) / S, NEAR = LEFT + V + RIGHT;
};

template <class T, class Code, class Y, class X, int V>
__device__ void max_strip(const T* plane, T* y, Code* where, int row, int column, long long e,
                          const PoolShape& p) {
    using C = typename Wider<T>::Type;
    using H = typename CodeType<Code>::Type;
    using R = Strip<X, V>;
    C most[V];
    H code[V];
    int top = row * Y::STEP - Y::BEFORE, h = max(top, 0);
#pragma unroll
    for (int i = 0; i < V;
         ++i) {  // the first position of a window, which is its maximum if all are -inf
        int left = (column * V + i) * R::S - R::P, w = max(left, 0);
        most[i] = C(-INFINITY), code[i] = code_of<H, Y, X>(h, w, h - top, w - left, p.width);
    }
    Y::each(row, p.height, p.out_rows, [&](int h, int ky) {
        C value[R::ALL];
        load_segment<R::P, R::N, R::AFTER>(value, plane + (long long)h * p.width, column * R::N,
                                           p.width, C(-INFINITY));
#pragma unroll
        for (int i = 0; i < V; ++i)
#pragma unroll
            for (int k = 0; k < R::K; ++k) {
                C v = value[i * R::S + k];
                if (v > most[i] || v != v)
                    most[i] = v, code[i] = code_of<H, Y, X>(h, (column * V + i) * R::S - R::P + k,
                                                            ky, k, p.width);
            }
    });
    Vector<T, V> result;
#pragma unroll
    for (int i = 0; i < V; ++i) result[i] = to<T>(most[i]);
    store_whole(y + e * V, result);
    store_code<V>(where, e * V, code);
}

template <class T, class Y, class X, int V>
__device__ void mean_strip(const T* plane, T* y, int divisor, int padding, int row, int column,
                           long long e, const PoolShape& p) {
    using C = typename Wider<T>::Type;
    using R = Strip<X, V>;
    C sum[V] = {};
    Y::each(row, p.height, p.out_rows, [&](int h, int) {
        C value[R::ALL];
        load_segment<R::P, R::N, R::AFTER>(value, plane + (long long)h * p.width, column * R::N,
                                           p.width, C(0));
#pragma unroll
        for (int i = 0; i < V; ++i)
#pragma unroll
            for (int k = 0; k < R::K; ++k) sum[i] += value[i * R::S + k];
    });
    int high = Y::count(row, p.height, p.out_rows, padding);
    Vector<T, V> result;
#pragma unroll
    for (int i = 0; i < V; ++i) {
        int count = high * X::count(column * V + i, p.width, p.out_columns, padding);
        result[i] = to<T>(sum[i] / C(divisor ? divisor : count));
    }
    store_whole(y + e * V, result);
}

// The gradient of N neighbours of an input's row, from the windows that cover them. PART(v, row, o,
// ky, k) is what the window `o` adds to the position of its tap k.
template <class T, class Y, class X, int V, class Load, class Part>
__device__ void gather_strip(T* dx, int h, int column, const PoolShape& p, Load load_windows,
                             Part part) {
    using C = typename Wider<T>::Type;
    using R = Strip<X, V>;
    C sum[R::N] = {};
    Y::covering(h, p.height, p.out_rows, [&](int row, int ky) {
        load_windows(row);
#pragma unroll
        for (int o = 0; o < R::NEAR; ++o)
#pragma unroll
            for (int k = 0; k < R::K; ++k) {
                int j = (o - R::LEFT) * R::S - R::P + k;
                if (j >= 0 && j < R::N) sum[j] += part(row, o, ky, k, j);
            }
    });
    T out[R::N];
#pragma unroll
    for (int j = 0; j < R::N; ++j) out[j] = to<T>(sum[j]);
    store_row(dx, out);
}
