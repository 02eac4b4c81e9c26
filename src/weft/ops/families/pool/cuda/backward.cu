// The gradients of max and average pooling: each element of the input gathers from the windows that
// cover it, in a fixed order, without atomics. See windows.cuh.
#include "strips.cuh"

template <class T, class Code, class I, class Y, class X, int V>
__global__ void __launch_bounds__(256)
    max_gather(const T* __restrict__ dy, const Code* __restrict__ where, T* __restrict__ dx,
               const PoolShape p) {
    take_turn();
    using C = typename Wider<T>::Type;
    Place<I> own(p);
    if (!own.there) return;
    I inner = I(p.inner.size) * V;
    long long start = own.plane * ((long long)p.out_rows * p.out_columns * inner) + own.c * V;
    C sum[V] = {};
    Y::covering(own.row, p.height, p.out_rows, [&](int row, int ky) {
        X::covering(own.column, p.width, p.out_columns, [&](int column, int kx) {
            long long at = start + (I(row) * I(p.out_columns) + I(column)) * inner;
            Vector<Code, V> code = load<V>(where + at);
            Vector<T, V> v = load<V>(dy + at);
            Code here = code_of<Code, Y, X>(own.row, own.column, ky, kx, p.width);
#pragma unroll
            for (int i = 0; i < V; ++i) sum[i] += code[i] == here ? to<C>(v[i]) : C(0);
        });
    });
    Vector<T, V> result;
#pragma unroll
    for (int i = 0; i < V; ++i) result[i] = to<T>(sum[i]);
    store(dx + (long long)own.e * V, result);
}

// A thread has the same place of P planes: which windows cover it is computed once.
template <class T, class I, class Y, class X, int V, int P = 1>
__global__ void __launch_bounds__(256) mean_gather(const T* __restrict__ dy, T* __restrict__ dx,
                                                   int divisor, int padding, const PoolShape p) {
    take_turn();
    using C = typename Wider<T>::Type;
    Place<I> own(p);
    if (!own.there) return;
    long long plane = own.plane * (long long)P;
    I inner = I(p.inner.size) * V;
    long long apart = (long long)p.out_rows * p.out_columns * inner;
    int there = P == 1 ? 1 : int(min((long long)P, p.planes - plane));
    const T* from = dy + plane * apart + own.c * V;
    C sum[P][V] = {};
    Y::covering(own.row, p.height, p.out_rows, [&](int row, int) {
        X::covering(own.column, p.width, p.out_columns, [&](int column, int) {
            const T* at = from + (I(row) * I(p.out_columns) + I(column)) * inner;
            int count = Y::count(row, p.height, p.out_rows, padding) *
                        X::count(column, p.width, p.out_columns, padding);
            C part = C(1) / C(divisor ? divisor : count);
            add_planes<V, P>(sum, at, apart, there, [&](C v) { return v * part; });
        });
    });
    T* end =
        dx + (((plane * p.height + own.row) * p.width + own.column) * p.inner.size + own.c) * V;
    long long step = (long long)p.height * p.width * inner;
    store_planes<V, P>(end, sum, step, there, [](C sum) { return sum; });
}

// ---- windows that touch neither each other nor the padding --------------------------------------
// Each thread has V windows of a row, and writes all that they cover. Rows of threads below the
// last window write zeros.
template <class T, class Code, class I, int KY, int KX, int V>
__global__ void __launch_bounds__(256)
    max_spread(const T* __restrict__ dy, const Code* __restrict__ where, T* __restrict__ dx,
               const PoolShape p) {
    take_turn();
    Place<I> own(p);
    if (!own.there) return;
    max_to_rows<KY, KX, V>(dy, where, dx, own.plane, own.row, own.column, p);
}

template <class T, class I, int KY, int KX, int V>
__global__ void __launch_bounds__(256)
    mean_spread(const T* __restrict__ dy, T* __restrict__ dx, int divisor, const PoolShape p) {
    take_turn();
    using C = typename Wider<T>::Type;
    Place<I> own(p);
    if (!own.there) return;
    T each[V];
    bool real = own.row < p.out_rows;
    Vector<T, V> v;
    if (real)
        v = load<V>(dy + ((long long)own.plane * p.out_rows + own.row) * p.out_columns +
                    own.column * V);
#pragma unroll
    for (int i = 0; i < V; ++i)
        each[i] = real ? to<T>(to<C>(v[i]) / C(divisor ? divisor : KY * KX)) : to<T>(0.0f);
    T* to_ =
        dx + ((long long)own.plane * p.height + own.row * KY) * p.width + own.column * (V * KX);
    T out[V * KX];
#pragma unroll
    for (int i = 0; i < V * KX; ++i) out[i] = each[i / KX];
#pragma unroll
    for (int ky = 0; ky < KY; ++ky)
        if (own.row * KY + ky < p.height) store_row(to_ + (long long)ky * p.width, out);
}

// ---- windows that overlap -----------------------------------------------------------------------
// Each thread has V * STEP neighbours of a row of the input; see strips.cuh. `columns` counts
// threads.
template <class T, class Code, class I, class Y, class X, int V>
__global__ void __launch_bounds__(256)
    max_cover(const T* __restrict__ dy, const Code* __restrict__ where, T* __restrict__ dx,
              const PoolShape p) {
    take_turn();
    using C = typename Wider<T>::Type;
    using R = Strip<X, V>;
    Place<I> own(p);
    if (!own.there) return;
    long long plane = own.plane;
    C v[R::NEAR];
    Code code[R::NEAR];
    gather_strip<T, Y, X, V>(
        dx + (long long)own.e * R::N, own.row, own.column, p,
        [&](int row) {
            long long at = (plane * p.out_rows + row) * p.out_columns;
            load_segment<R::LEFT, V, R::RIGHT>(v, dy + at, own.column * V, p.out_columns, C(0));
            load_segment<R::LEFT, V, R::RIGHT>(code, where + at, own.column * V, p.out_columns,
                                               Code(0));
        },
        [&](int, int o, int ky, int k, int j) {
            return code[o] == code_of<Code, Y, X>(own.row, own.column * R::N + j, ky, k, p.width)
                       ? v[o]
                       : C(0);
        });
}

template <class T, class I, class Y, class X, int V>
__global__ void __launch_bounds__(256) mean_cover(const T* __restrict__ dy, T* __restrict__ dx,
                                                  int divisor, int padding, const PoolShape p) {
    take_turn();
    using C = typename Wider<T>::Type;
    using R = Strip<X, V>;
    Place<I> own(p);
    if (!own.there) return;
    long long plane = own.plane;
    C v[R::NEAR];
    gather_strip<T, Y, X, V>(
        dx + (long long)own.e * R::N, own.row, own.column, p,
        [&](int row) {
            long long at = (plane * p.out_rows + row) * p.out_columns;
            load_segment<R::LEFT, V, R::RIGHT>(v, dy + at, own.column * V, p.out_columns, C(0));
            int high = Y::count(row, p.height, p.out_rows, padding);
#pragma unroll
            for (int o = 0; o < R::NEAR; ++o) {
                int by = divisor ? divisor
                                 : high * X::count(own.column * V - R::LEFT + o, p.width,
                                                   p.out_columns, padding);
                // Most windows are whole: then the compiler divides. A window that is not there has
                // nothing to divide.
                constexpr int WHOLE = Y::TAPS * X::TAPS;
                v[o] *= by == WHOLE ? C(1) / C(WHOLE) : C(1) / C(by > 0 ? by : 1);
            }
        },
        [&](int, int o, int, int, int) { return v[o]; });
}
