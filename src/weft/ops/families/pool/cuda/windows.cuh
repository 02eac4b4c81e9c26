// Shared parts of the kernels of pooling. Tensors are [planes][height][width][inner]: inner is 1
// for contiguous tensors, and the number of channels where channels are last in memory.
#pragma once
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/problem.cuh>

using namespace weft;

template <class T> struct Wider {
    using Type = float;
};
template <> struct Wider<double> {
    using Type = double;
};

// The larger ones of two vectors; elements of two bytes in pairs.
template <class T, int V>
__device__ Vector<T, V> larger(Vector<T, V> a, const Vector<T, V>& b) {
    if constexpr (PACKS<T> && V % 2 == 0) {
#pragma unroll
        for (int i = 0; i < V / 2; ++i) {
            unsigned& own = reinterpret_cast<unsigned*>(&a)[i];
            own = max_nan_packed<T>(own, reinterpret_cast<const unsigned*>(&b)[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < V; ++i) a[i] = max_nan(a[i], b[i]);
    }
    return a;
}

STRUCT_POOLSHAPE  // see structs.py

// Returns x / size, and in `rest` what remains.
    __device__ inline unsigned split(const Size& by, unsigned x, int& rest) {
    unsigned whole = by.size == 1 ? x : quotient(int(x), int(by.magic), int(by.shift));
    rest = int(x - whole * by.size);
    return whole;
}
__device__ inline long long split(const Size& by, long long x, int& rest) {
    rest = int(x % by.size);
    return x / by.size;
}

// The place of a thread, or of a group of GROUP threads: a vector of the inner dimension, a column
// and a row of a plane.
template <class I, int GROUP = 1>
struct Place {
    I e, plane;
    int c, column, row;
    bool there;

    __device__ explicit Place(const PoolShape& p) {
        e = I(blockIdx.x) * (256 / GROUP) + threadIdx.x / GROUP, there = e < I(p.total);
        if (there) plane = split(p.rows, split(p.columns, split(p.inner, e, c), column), row);
    }
};

// Adds `term(v)` of the same vector of P planes to their sums; `there` planes exist, `apart`
// elements from each other.
template <int V, int P, class T, class C, class F>
__device__ void add_planes(C (&sum)[P][V], const T* at, long long apart, int there, F term) {
    Vector<T, V> v[P] = {};
#pragma unroll
    for (int k = 0; k < P; ++k)
        if (k < there) v[k] = load<V>(at + k * apart);
#pragma unroll
    for (int k = 0; k < P; ++k)
#pragma unroll
        for (int i = 0; i < V; ++i) sum[k][i] += term(to<C>(v[k][i]));
}

// Stores `result(sum)` of each plane.
template <int V, int P, class T, class C, class F>
__device__ void store_planes(T* end, const C (&sum)[P][V], long long apart, int there, F result) {
#pragma unroll
    for (int k = 0; k < P; ++k) {
        Vector<T, V> v;
#pragma unroll
        for (int i = 0; i < V; ++i) v[i] = to<T>(result(sum[k][i]));
        if (k < there) store(end + k * apart, v);
    }
}

// Windows along one dimension: K positions D apart, windows S apart, P positions of padding in
// front.
template <int K, int S, int P, int D>
struct Fixed {
    static constexpr bool FIXED = true;
    static constexpr int TAPS = K, MOST = (K - 1) * D / S + 1, STEP = S, BEFORE = P, APART = D;
    // Calls f(position, tap) for each position of window o.
    template <class F>
    static __device__ void each(int o, int size, int, F f) {
#pragma unroll(K <= 8 ? K : 1)
        for (int k = 0; k < K; ++k) {
            int at = o * S - P + k * D;
            if (unsigned(at) < unsigned(size)) f(at, k);
        }
    }
    // Calls f(window, tap) for each window that covers a position, in the order of windows.
    template <class F>
    static __device__ void covering(int at, int, int out, F f) {
        int last = (at + P) / S;
#pragma unroll(MOST <= 8 ? MOST : 1)
        for (int i = MOST - 1; i >= 0; --i) {
            int o = last - i, tap = at + P - o * S;
            if (unsigned(o) < unsigned(out) && tap <= (K - 1) * D && (D == 1 || tap % D == 0))
                f(o, tap / D);
        }
    }
    // The first position of window o, the one after its last, and the tap at a position where taps
    // are neighbours.
    static __device__ int first(int o, int, int) { return max(o * S - P, 0); }
    static __device__ int last(int o, int size, int) {
        return min(o * S - P + (K - 1) * D + 1, size);
    }
    static __device__ int tap(int at, int o) { return at - (o * S - P); }
    // The number of positions of window o; with those of the padding, or without.
    static __device__ int count(int o, int size, int, bool padding) {
        int first = o * S - P, last = min(first + K, size + P);
        return padding ? last - first : min(last, size) - max(first, 0);
    }
};

// Windows that cut a dimension into `out` parts; neighbours may share a position. N is an integer
// type that holds (size + 1) * out: divisions of 64 bits take several times as long as those of 32.
template <class N>
struct Adaptive {
    static constexpr bool FIXED = false;
    static constexpr int TAPS = 0;
    static __device__ int first(int o, int size, int out) { return int(N(o) * N(size) / N(out)); }
    static __device__ int last(int o, int size, int out) {
        return int((N(o + 1) * N(size) + N(out - 1)) / N(out));
    }
    static __device__ int tap(int, int) { return 0; }
    template <class F>
    static __device__ void each(int o, int size, int out, F f) {
        for (int at = first(o, size, out), end = last(o, size, out); at < end; ++at) f(at, 0);
    }
    // Window o begins at or before a position where o * size < (at + 1) * out, and ends after it
    // where (o + 1) * size > at * out.
    template <class F>
    static __device__ void covering(int at, int size, int out, F f) {
        int end = int((N(at + 1) * N(out) - 1) / N(size));
        for (int o = int(N(at) * N(out) / N(size)); o <= end; ++o) f(o, 0);
    }
    static __device__ int count(int o, int size, int out, bool) {
        return last(o, size, out) - first(o, size, out);
    }
};

// The place of a maximum: the number of the tap in its window (bytes), or the position in its
// plane.
template <class Code, class Y, class X>
__device__ Code code_of(int y, int x, int ky, int kx, int width) {
    return sizeof(Code) == 1 ? Code(ky * X::TAPS + kx) : Code((long long)y * width + x);
}

// Stores nothing.
struct Nothing {};
template <class Code> constexpr bool SAVED = true;
template <> constexpr bool SAVED<Nothing> = false;
template <int V> __device__ inline void store_code(Nothing*, long long, const int (&)[V]) {}
template <int V, class Code>
__device__ void store_code(Code* to_, long long at, const Code (&code)[V]) {
    Vector<Code, V> v;
#pragma unroll
    for (int i = 0; i < V; ++i) v[i] = code[i];
    store(to_ + at, v);
}

// The maxima of a window at V neighbours, and where they were found.
template <class T, class H, int V>
struct Most {
    using C = typename Wider<T>::Type;
    C most[V];
    H code[V] = {};
    bool first = true;

    __device__ Most() {
#pragma unroll
        for (int i = 0; i < V; ++i)
            most[i] = C(-INFINITY);  // what a window without positions gives
    }
    // As in torch: of equal ones the first, of NaNs the last.
    __device__ void take(const Vector<T, V>& v, H here) {
#pragma unroll
        for (int i = 0; i < V; ++i) {
            C value = to<C>(v[i]);
            if (first || value > most[i] || value != value) most[i] = value, code[i] = here;
        }
        first = false;
    }
    template <class Code>
    __device__ void store_at(T* y, Code* where, long long at) const {
        Vector<T, V> result;
#pragma unroll
        for (int i = 0; i < V; ++i) result[i] = to<T>(most[i]);
        store(y + at, result);
        store_code<V>(where, at, code);
    }
};
