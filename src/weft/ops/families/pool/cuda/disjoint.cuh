// Max pooling by windows that touch neither each other nor the padding: several windows of a row
// per thread.
#pragma once
#include "windows.cuh"

template <class Code> struct CodeType {
    using Type = Code;
};
template <> struct CodeType<Nothing> {
    using Type = int;
};

// N neighbours of a row as vectors of at most 16 bytes; N elements begin at a multiple of them.
template <int N, class T>
__device__ void load_row(T (&row)[N], const T* from) {
    constexpr int LOW = N & -N, WIDE = LOW * sizeof(T) > 16 ? 16 / sizeof(T) : LOW;
#pragma unroll
    for (int i = 0; i < N; i += WIDE) {
        Vector<T, WIDE> v = load<WIDE>(from + i);
#pragma unroll
        for (int k = 0; k < WIDE; ++k) row[i + k] = v[k];
    }
}

template <int N, class T>
__device__ void store_row(T* to_, const T (&row)[N]) {
    constexpr int LOW = N & -N, WIDE = LOW * sizeof(T) > 16 ? 16 / sizeof(T) : LOW;
#pragma unroll
    for (int i = 0; i < N; i += WIDE) {
        Vector<T, WIDE> v;
#pragma unroll
        for (int k = 0; k < WIDE; ++k) v[k] = row[i + k];
        store(to_ + i, v);
    }
}

// V results of a row. `line` counts rows of the input of all planes, `top` those of this plane; `e`
// counts vectors of results.
template <int KY, int KX, int V, class T, class Code>
__device__ void max_of_row(const T* x, T* y, Code* where, long long line, int top, int column,
                           long long e, int width) {
    using C = typename Wider<T>::Type;
    using H = typename CodeType<Code>::Type;
    const T* from = x + line * width + column * (V * KX);
    T in[KY][V * KX];
#pragma unroll
    for (int k = 0; k < KY; ++k) load_row(in[k], from + (long long)k * width);
    Vector<T, V> result;
    H code[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
        C most = to<C>(in[0][i * KX]);
        int tap = 0;
#pragma unroll
        for (int k = 1; k < KY * KX; ++k) {
            C value = to<C>(in[k / KX][i * KX + k % KX]);
            if (value > most || value != value) most = value, tap = k;
        }
        result[i] = to<T>(most);
        code[i] = sizeof(H) == 1
                      ? H(tap)
                      : H((long long)(top + tap / KX) * width + (column * V + i) * KX + tap % KX);
    }
    store(y + e * V, result);
    store_code<V>(where, e * V, code);
}

// All that V windows of a row cover. Rows of threads below the last window write zeros.
template <int KY, int KX, int V, class T, class Code>
__device__ void max_to_rows(const T* dy, const Code* where, T* dx, long long plane, int row,
                            int column, const PoolShape& p) {
    Vector<T, V> v;
    Vector<Code, V> code;
    bool real = row < p.out_rows;
    if (real) {
        long long at = (plane * p.out_rows + row) * p.out_columns + column * V;
        v = load<V>(dy + at), code = load<V>(where + at);
    }
    T* first = dx + (plane * p.height + row * KY) * p.width + column * (V * KX);
#pragma unroll
    for (int ky = 0; ky < KY; ++ky) {
        if (row * KY + ky >= p.height) return;
        T out[V * KX];
#pragma unroll
        for (int i = 0; i < V * KX; ++i) {
            int tap = ky * KX + i % KX;
            Code here = sizeof(Code) == 1
                            ? Code(tap)
                            : Code((long long)(row * KY + ky) * p.width + column * (V * KX) + i);
            out[i] = real && code[i / KX] == here ? v[i / KX] : to<T>(0.0f);
        }
        store_row(first + (long long)ky * p.width, out);
    }
}
