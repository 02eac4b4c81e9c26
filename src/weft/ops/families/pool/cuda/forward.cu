// Max and average pooling. See windows.cuh.
#include "groups.cuh"
#include "staged.cuh"
#include "strips.cuh"

// Each thread has V neighbours of the inner dimension at one place of the result. Y and X are the
// windows along height and width; Code is the type of a maximum's saved place.
template <class T, class Code, class I, class Y, class X, int V>
__global__ void __launch_bounds__(256) max_windows(const T* __restrict__ x, T* __restrict__ y,
                                                   Code* __restrict__ where, const PoolShape p) {
    take_turn();
    using H = typename CodeType<Code>::Type;
    Place<I> own(p);
    if (!own.there) return;
    I inner = I(p.inner.size) * V;
    const T* from = x + own.plane * ((long long)p.height * p.width * inner) + own.c * V;
    if constexpr (SAVED<Code>) {
        Most<T, H, V> most;
        Y::each(own.row, p.height, p.out_rows, [&](int h, int ky) {
            const T* line = from + I(h) * I(p.width) * inner;
            X::each(own.column, p.width, p.out_columns, [&](int w, int kx) {
                most.take(load<V>(line + I(w) * inner), code_of<H, Y, X>(h, w, ky, kx, p.width));
            });
        });
        most.store_at(y, where, (long long)own.e * V);
    } else {
        Vector<T, V> most = fill<V>(to<T>(-INFINITY));  // what a window without positions gives
        Y::each(own.row, p.height, p.out_rows, [&](int h, int) {
            const T* line = from + I(h) * I(p.width) * inner;
            X::each(own.column, p.width, p.out_columns,
                    [&](int w, int) { most = larger(most, load<V>(line + I(w) * inner)); });
        });
        store(y + (long long)own.e * V, most);
    }
}

// `divisor` is 0 if the number of positions is to be divided by; `padding` says whether those of
// the padding count. A thread has the same place of P planes: where windows lie is computed once.
template <class T, class I, class Y, class X, int V, int P = 1>
__global__ void __launch_bounds__(256) mean_windows(const T* __restrict__ x, T* __restrict__ y,
                                                    int divisor, int padding, const PoolShape p) {
    take_turn();
    using C = typename Wider<T>::Type;
    Place<I> own(p);
    if (!own.there) return;
    long long plane = own.plane * (long long)P;
    I inner = I(p.inner.size) * V;
    long long apart = (long long)p.height * p.width * inner;
    int there = P == 1 ? 1 : int(min((long long)P, p.planes - plane));
    const T* from = x + plane * apart + own.c * V;
    C sum[P][V] = {};
    Y::each(own.row, p.height, p.out_rows, [&](int h, int) {
        const T* line = from + I(h) * I(p.width) * inner;
        X::each(own.column, p.width, p.out_columns, [&](int w, int) {
            add_planes<V, P>(sum, line + I(w) * inner, apart, there, [](C v) { return v; });
        });
    });
    int count = Y::count(own.row, p.height, p.out_rows, padding) *
                X::count(own.column, p.width, p.out_columns, padding);
    C by = divisor ? divisor : count;
    T* end =
        y +
        (((plane * p.out_rows + own.row) * p.out_columns + own.column) * p.inner.size + own.c) * V;
    long long step = (long long)p.out_rows * p.out_columns * inner;
    store_planes<V, P>(end, sum, step, there, [&](C sum) { return sum / by; });
}

// ---- large windows ------------------------------------------------------------------------------
// Each warp has V neighbours of the inner dimension at one place of the result.
template <class T, class Code, class I, class Y, class X, int V>
__global__ void __launch_bounds__(256) max_groups(const T* __restrict__ x, T* __restrict__ y,
                                                  Code* __restrict__ where, const PoolShape p) {
    take_turn();
    using C = typename Wider<T>::Type;
    using H = typename CodeType<Code>::Type;
    Place<I, 32> own(p);
    if (!own.there) return;
    long long inner = (long long)p.inner.size * V, pixels = (long long)p.height * p.width;
    const T* from = x + own.plane * pixels * inner + own.c * V;
    Positions window = Positions::of<Y, X>(own.row, own.column, p);
    Largest<C> most[V];
    window.each([&](int h, int w, int i) {
        Vector<T, V> v = load<V>(from + ((long long)h * p.width + w) * inner);
#pragma unroll
        for (int j = 0; j < V; ++j) most[j].take(to<C>(v[j]), i);
    });
    Vector<T, V> result;
    H code[V] = {};
#pragma unroll
    for (int j = 0; j < V; ++j) {
        most[j] = most[j].of_warp();
        result[j] = to<T>(most[j].value);
        int at = max(most[j].at, 0), h = window.top + at / window.columns,
            w = window.left + at % window.columns;
        code[j] = code_of<H, Y, X>(h, w, Y::tap(h, own.row), X::tap(w, own.column), p.width);
    }
    if (threadIdx.x % 32) return;
    store(y + (long long)own.e * V, result);
    store_code<V>(where, (long long)own.e * V, code);
}

template <class T, class I, class Y, class X, int V>
__global__ void __launch_bounds__(256) mean_groups(const T* __restrict__ x, T* __restrict__ y,
                                                   int divisor, int padding, const PoolShape p) {
    take_turn();
    using C = typename Wider<T>::Type;
    Place<I, 32> own(p);
    if (!own.there) return;
    long long inner = (long long)p.inner.size * V, pixels = (long long)p.height * p.width;
    const T* from = x + own.plane * pixels * inner + own.c * V;
    C sum[V] = {};
    Positions::of<Y, X>(own.row, own.column, p).each([&](int h, int w, int) {
        Vector<T, V> v = load<V>(from + ((long long)h * p.width + w) * inner);
#pragma unroll
        for (int j = 0; j < V; ++j) sum[j] += to<C>(v[j]);
    });
    int count = Y::count(own.row, p.height, p.out_rows, padding) *
                X::count(own.column, p.width, p.out_columns, padding);
    C by = divisor ? divisor : count;
    Vector<T, V> result;
#pragma unroll
    for (int j = 0; j < V; ++j) result[j] = to<T>(warp_sum(sum[j]) / by);
    if (threadIdx.x % 32 == 0) store(y + (long long)own.e * V, result);
}

// ---- windows that touch neither each other nor the padding --------------------------------------
// Each thread has V results of a row; rows are V * KX * (columns of threads) elements. `columns`
// counts threads.
template <class T, class Code, class I, int KY, int KX, int V>
__global__ void __launch_bounds__(256) max_disjoint(const T* __restrict__ x, T* __restrict__ y,
                                                    Code* __restrict__ where, const PoolShape p) {
    take_turn();
    Place<I> own(p);
    if (!own.there) return;
    max_of_row<KY, KX, V>(x, y, where, (long long)own.plane * p.height + own.row * KY, own.row * KY,
                          own.column, own.e, p.width);
}

template <class T, class I, int KY, int KX, int V>
__global__ void __launch_bounds__(256)
    mean_disjoint(const T* __restrict__ x, T* __restrict__ y, int divisor, const PoolShape p) {
    take_turn();
    using C = typename Wider<T>::Type;
    Place<I> own(p);
    if (!own.there) return;
    const T* from =
        x + ((long long)own.plane * p.height + own.row * KY) * p.width + own.column * (V * KX);
    T in[KY][V * KX];
#pragma unroll
    for (int k = 0; k < KY; ++k) load_row(in[k], from + (long long)k * p.width);
    Vector<T, V> result;
#pragma unroll
    for (int i = 0; i < V; ++i) {
        C sum = 0;
#pragma unroll
        for (int k = 0; k < KY * KX; ++k) sum += to<C>(in[k / KX][i * KX + k % KX]);
        result[i] = to<T>(sum / C(divisor ? divisor : KY * KX));
    }
    store(y + (long long)own.e * V, result);
}

// ---- windows that overlap -----------------------------------------------------------------------
// Each thread has V results of a row; see strips.cuh. `columns` counts threads.
template <class T, class Code, class I, class Y, class X, int V>
__global__ void __launch_bounds__(256) max_strips(const T* __restrict__ x, T* __restrict__ y,
                                                  Code* __restrict__ where, const PoolShape p) {
    take_turn();
    Place<I> own(p);
    if (!own.there) return;
    max_strip<T, Code, Y, X, V>(x + own.plane * ((long long)p.height * p.width), y, where, own.row,
                                own.column, own.e, p);
}

template <class T, class I, class Y, class X, int V>
__global__ void __launch_bounds__(256) mean_strips(const T* __restrict__ x, T* __restrict__ y,
                                                   int divisor, int padding, const PoolShape p) {
    take_turn();
    Place<I> own(p);
    if (!own.there) return;
    mean_strip<T, Y, X, V>(x + own.plane * ((long long)p.height * p.width), y, divisor, padding,
                           own.row, own.column, own.e, p);
}
