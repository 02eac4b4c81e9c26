// Loads and stores of a transform's elements and results: real or complex, any strides.
#pragma once
#include <weft/convert.cuh>

#include "stockham.cuh"

using namespace weft;

// A transform has an index c in a row of `count`, m in `middle` of those, and an outer one.
// Strides are in elements of the tensor.
STRUCT_PROBLEM  // see structs.py

    // The origins of a block's transforms. JOINED: its transforms, from number c on, go on from one
    // row of `count` to the next, so that short rows fill a block together.
    struct Origin {
    long long in, out;
    int c;  // of the first transform
};
template <int C, bool JOINED = false>
__device__ __forceinline__ Origin origin(const Problem& p) {
    long long block = blockIdx.x;
    int tile = block % p.tiles, c = tile * C;
    long long rest = block / p.tiles;
    if constexpr (JOINED) return {rest * p.in_outer, rest * p.out_outer, c};
    long long m = rest % p.middle, outer = rest / p.middle;
    return {c * p.in_c + m * p.in_middle + outer * p.in_outer,
            c * p.out_c + m * p.out_middle + outer * p.out_outer, c};
}

// True if the block has a transform k, and its distance from the origin; `c` and `middle` are the
// strides of a side.
template <bool JOINED>
__device__ __forceinline__ bool exists(const Problem& p, int c, int k) {
    return c + k < (JOINED ? p.count * p.middle : p.count);
}
template <bool JOINED>
__device__ __forceinline__ long long distance(const Problem& p, int first, int k, long long c,
                                              long long middle) {
    if constexpr (!JOINED) return k * c;
    unsigned number = first + k, row = number / unsigned(p.count);
    return row * middle + (number - row * unsigned(p.count)) * c;
}

// Elements k and N - k of a half spectrum give element k of the transform of pairs, and back;
// turn is exp(-2 pi i k / 2N).
__device__ __forceinline__ float2 folded(float2 a, float2 b, float2 turn, bool first,
                                         float weight) {
    if (first) a.y = 0, b.y = 0;
    float2 even = a + conjugate(b), odd = (a - conjugate(b)) * conjugate(turn);
    return (first ? 1.0f : weight) * float2{even.x - odd.y, even.y + odd.x};
}
__device__ __forceinline__ void unfolded(float2 a, float2 b, float2 turn, float scale, float2* low,
                                         float2* high) {
    float2 e = 0.5f * (a + conjugate(b)), o = 0.5f * (a - conjugate(b)) * turn;
    float2 q = {o.y, -o.x};
    *low = scale * (e + q);
    *high = scale * conjugate(e - q);
}

// exp(-2 pi i a / n) for 0 <= a < n; a is exact until it becomes a float.
__device__ __forceinline__ float2 root(long long a, long long n) {
    if (2 * a > n) a -= n;
    float s, c;
    sincospif(float(-2 * a) / float(n), &s, &c);
    return {c, s};
}

// Kinds of input.
//   COMPLEX    complex numbers
//   REAL       real numbers, as complex ones
//   PAIRS      2 N real numbers as N complex ones
//   SPECTRUM   N complex numbers, of which the N / 2 + 1 first are given: the rest are conjugates
//   FOLDED     the N + 1 first numbers of the spectrum of 2 N real numbers, for PAIRS as the output
enum Input { COMPLEX, REAL, PAIRS, SPECTRUM, FOLDED };

// UNIT: elements are adjacent. WHOLE: all elements exist. PAIR: both numbers of a pair are one
// aligned vector.
// SWAP: exchange real and imaginary parts; a forward transform between two swaps is an inverse one.
// CHIRP: multiply by a table of the elements that exist.
template <Input KIND, class T, bool UNIT, bool WHOLE, bool PAIR, bool SWAP, bool CHIRP = false>
struct Load {
    using Element = T;

    __device__ static float2 given(const T* x, const Problem& p, int c, int i) {
        if (!WHOLE && (long long)i * p.step + c * p.shift >= p.valid) return {0, 0};
        const T* at = x + (UNIT ? i : i * p.input);
        if constexpr (KIND == REAL) return {to<float>(*at), 0};
        else return *at;
    }

    __device__ static float2 pair(const T* x, const Problem& p, int c, int i) {
        const T* at = x + (UNIT ? 2 * i : i * p.input);
        long long number = 2 * ((long long)i * p.step + c * p.shift);
        if constexpr (PAIR)
            if (WHOLE || number + 1 < p.valid) return *reinterpret_cast<const float2*>(at);
        return {WHOLE || number < p.valid ? to<float>(*at) : 0,
                WHOLE || number + 1 < p.valid ? to<float>(at[p.in_next]) : 0};
    }

    // turns: exp(-2 pi i k / 2N), for FOLDED; for CHIRP its table.
    template <int N>
    __device__ static float2 at(const T* x, const Problem& p, const float2* turns, int c, int i) {
        float2 v;
        if constexpr (KIND == PAIRS) {
            v = pair(x, p, c, i);
        } else if constexpr (KIND == SPECTRUM) {
            bool second = 2 * i > N;
            v = given(x, p, c, second ? N - i : i);
            if (i == 0 || 2 * i == N) v.y = 0;
            else v = p.weight * (second ? conjugate(v) : v);
        } else if constexpr (KIND == FOLDED) {
            float2 a = given(x, p, c, i), b = given(x, p, c, N - i);
            v = folded(a, b, __ldg(turns + i), i == 0, p.weight);
        } else {
            v = given(x, p, c, i);
        }
        if (SWAP) v = swapped(v);
        if constexpr (CHIRP) {
            long long number = (long long)i * p.step + c * p.shift;
            v = number * (KIND == PAIRS ? 2 : 1) < p.valid ? v * __ldg(turns + number)
                                                           : float2{0, 0};
        }
        return v;
    }
};

// Kinds of output.
//   ALL        all complex numbers
//   HALF       the first N / 2 + 1 of them
//   PART       the real parts
//   SPLIT      real and imaginary parts as 2 N real numbers
//   UNFOLDED   the first N + 1 numbers of the spectrum of the 2 N real numbers read as PAIRS
//   TWIDDLED     all, times exp(-2 pi i k c / whole): the pass of a longer transform
//   TWIDDLED_BY_MIDDLE  the same with the middle index of the transform instead of c
enum Output { ALL, HALF, PART, SPLIT, UNFOLDED, TWIDDLED, TWIDDLED_BY_MIDDLE };

template <bool FIRST, class A, class B>
struct Chosen {
    using Type = A;
};
template <class A, class B>
struct Chosen<false, A, B> {
    using Type = B;
};

// PAIR: as for Load. CHIRP: the last pass of a convolution, whose results have real and imaginary
// parts exchanged. They are multiplied by a table, and those that exist are written.
template <Output KIND_, bool UNIT, bool PAIR, bool SWAP, bool CHIRP = false>
struct Store {
    static constexpr Output KIND = KIND_;
    using Element = typename Chosen<KIND == PART || KIND == SPLIT, float, float2>::Type;

    template <int N>
    __device__ static void at(Element* y, const Problem& p, const float2* turns, int c, int i,
                              float2 v) {
        if (i >= (KIND == HALF ? N / 2 + 1 : p.written)) return;
        if constexpr (CHIRP) {
            long long number = (long long)i * p.step + c * p.shift;
            if (number >= p.whole) return;
            v = (number ? p.weight : 1.0f) * (swapped(v) * __ldg(turns + number));
        }
        if constexpr (KIND == TWIDDLED) v = v * root((long long)c * i, p.whole);
        if constexpr (KIND == TWIDDLED_BY_MIDDLE)
            v = v * root((long long)(blockIdx.x / p.tiles % p.middle) * i, p.whole);
        v = p.scale * (SWAP ? swapped(v) : v);
        if constexpr (KIND == HALF)
            if (i != 0 && 2 * i != N) v = p.weight * v;
        long long at = UNIT ? (KIND == SPLIT ? 2 : 1) * i : i * p.output;
        if constexpr (KIND == PART) {
            y[at] = v.x;
        } else if constexpr (KIND == SPLIT && PAIR) {
            *reinterpret_cast<float2*>(y + at) = v;
        } else if constexpr (KIND == SPLIT) {
            y[at] = v.x;
            y[at + p.out_next] = v.y;
        } else {
            y[at] = v;
        }
    }

    // UNFOLDED: a and b are the elements k and N - k.
    template <int N>
    __device__ static void pair(Element* y, const Problem& p, const float2* turns, int k, float2 a,
                                float2 b) {
        float2 low, high;
        unfolded(a, b, __ldg(turns + k), p.scale * (k == 0 ? 1.0f : p.weight), &low, &high);
        y[UNIT ? k : k * p.output] = low;
        y[UNIT ? N - k : (N - k) * p.output] = high;
    }
};

// Writes what the threads hold after the last stage of S, which has N or more elements. c is the
// first transform of the block.
template <int N, class S, class M, bool OUT, class W, bool USED, bool JOINED = false>
__device__ __forceinline__ void finish(float2* v, float2* shared, typename W::Element* y,
                                       const Problem& p, const float2* turns, int c) {
    constexpr bool WARP = !OUT && 32 % S::T == 0;
    Place to = place<S::T, M::C, OUT>();
    bool there = exists<JOINED>(p, c, to.c);
    y += distance<JOINED>(p, c, to.c, p.out_c, p.out_middle);
    if constexpr (W::KIND == UNFOLDED) {
        if constexpr (USED) wait<WARP>();
        elements<S, S::COUNT - 1>(to.t, [&](int e, int i) { shared[M::at(i, to.c)] = v[e]; });
        wait<WARP>();
        if (there)
            for (int k = to.t; k <= N / 2; k += S::T) {
                float2 a = shared[M::at(k, to.c)], b = shared[M::at(k ? N - k : 0, to.c)];
                W::template pair<N>(y, p, turns, k, a, b);
            }
    } else if (there) {
        elements<S, S::COUNT - 1>(
            to.t, [&](int e, int i) { W::template at<N>(y, p, turns, c + to.c, i, v[e]); });
    }
}

// The same through shared memory: adjacent threads write adjacent elements.
template <class S, class M, class W>
__device__ __forceinline__ void finish_staged(float2* v, float2* shared, typename W::Element* y,
                                              const Problem& p, const float2* turns, int c) {
    constexpr int N = S::N, COUNT = W::KIND == UNFOLDED ? N / 2 + 1 : N;
    Place to = place<S::T, M::C, false>();
    wait<32 % S::T == 0>();
    elements<S, S::COUNT - 1>(to.t, [&](int e, int i) { shared[M::at(i, to.c)] = v[e]; });
    __syncthreads();
    for (int i = threadIdx.x; i < M::C * COUNT; i += S::T * M::C) {
        int row = i / COUNT, k = i % COUNT;
        if (c + row >= p.count) return;
        typename W::Element* end = y + row * p.out_c;
        float2 a = shared[M::at(k, row)];
        if constexpr (W::KIND == UNFOLDED)
            W::template pair<N>(end, p, turns, k, a, shared[M::at(k ? N - k : 0, row)]);
        else W::template at<N>(end, p, turns, c + row, k, a);
    }
}
