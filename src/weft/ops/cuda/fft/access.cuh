// How a transform reads its elements and writes its results: real or complex, any strides.
#pragma once
#include "../vector.cuh"
#include "stockham.cuh"

// A transform has an index c in a row of `count`, m in `middle` of those, and an outer one.
// Strides are in elements of the tensor; `valid` elements exist along the input, the rest are 0.
struct Problem {
    long long in, in_c, in_middle, in_outer;
    long long out, out_c, out_middle, out_outer;
    long long whole;  // the length of the whole transform, if this is one pass of several
    int count, middle, tiles;
    int valid, kept;
    float scale;
    float weight;  // of the elements of a half spectrum that stand for two
};

// Where the transforms of a block begin.
struct Origin {
    long long in, out;
    int c;  // of the first transform
};
template <int C>
__device__ __forceinline__ Origin origin(const Problem& p) {
    long long block = blockIdx.x;
    int tile = block % p.tiles, c = tile * C;
    long long rest = block / p.tiles;
    long long m = rest % p.middle, outer = rest / p.middle;
    return {c * p.in_c + m * p.in_middle + outer * p.in_outer,
            c * p.out_c + m * p.out_middle + outer * p.out_outer, c};
}

// Kinds of input.
//   COMPLEX    complex numbers
//   REAL       real numbers, as complex ones
//   PAIRS      2 N real numbers as N complex ones
//   SPECTRUM   N complex numbers, of which the N / 2 + 1 first are given: the rest are conjugates
//   FOLDED     the N + 1 first numbers of the spectrum of 2 N real numbers, for PAIRS as the output
enum Input { COMPLEX, REAL, PAIRS, SPECTRUM, FOLDED };

// UNIT: elements are adjacent (pairs: aligned as well). WHOLE: all elements exist.
// SWAP: exchange real and imaginary parts; a forward transform between two swaps is an inverse one.
template <Input KIND, class T, bool UNIT, bool WHOLE, bool SWAP>
struct Load {
    using Element = T;

    __device__ static float2 given(const T* x, const Problem& p, int i) {
        if (!WHOLE && i >= p.valid) return {0, 0};
        const T* at = x + (UNIT ? i : i * p.in);
        if constexpr (KIND == REAL || KIND == PAIRS) return {to<float>(*at), 0};
        else return *at;
    }

    // turns: exp(-2 pi i k / 2N), for FOLDED.
    template <int N>
    __device__ static float2 at(const T* x, const Problem& p, const float2* turns, int i) {
        float2 v;
        if constexpr (KIND == PAIRS && UNIT && WHOLE && sizeof(T) == 4) {
            v = reinterpret_cast<const float2*>(x)[i];
        } else if constexpr (KIND == PAIRS) {
            v = {given(x, p, 2 * i).x, given(x, p, 2 * i + 1).x};
        } else if constexpr (KIND == SPECTRUM) {
            bool second = 2 * i > N;
            v = given(x, p, second ? N - i : i);
            if (i == 0 || 2 * i == N) v.y = 0;
            else v = p.weight * (second ? conjugate(v) : v);
        } else if constexpr (KIND == FOLDED) {
            float2 a = given(x, p, i), b = given(x, p, N - i);
            if (i == 0) a.y = 0, b.y = 0;
            float2 even = a + conjugate(b), odd = (a - conjugate(b)) * conjugate(__ldg(turns + i));
            v = (i == 0 ? 1.0f : p.weight) * float2{even.x - odd.y, even.y + odd.x};
        } else {
            v = given(x, p, i);
        }
        return SWAP ? swapped(v) : v;
    }
};

// Kinds of output.
//   ALL        all complex numbers
//   HALF       the first N / 2 + 1 of them
//   PART       the real parts
//   SPLIT      real and imaginary parts as 2 N real numbers
//   UNFOLDED   the first N + 1 numbers of the spectrum of the 2 N real numbers read as PAIRS
//   TURNED     all, times exp(-2 pi i k c / whole): the pass of a longer transform
enum Output { ALL, HALF, PART, SPLIT, UNFOLDED, TURNED };

template <bool FIRST, class A, class B>
struct Chosen {
    using Type = A;
};
template <class A, class B>
struct Chosen<false, A, B> {
    using Type = B;
};

template <Output KIND_, bool UNIT, bool SWAP>
struct Store {
    static constexpr Output KIND = KIND_;
    using Element = typename Chosen<KIND == PART || KIND == SPLIT, float, float2>::Type;

    template <int N>
    __device__ static void at(Element* y, const Problem& p, int c, int i, float2 v) {
        if (i >= (KIND == HALF ? N / 2 + 1 : p.kept)) return;
        if constexpr (KIND == TURNED) v = v * turn(p, (long long)c * i);
        v = p.scale * (SWAP ? swapped(v) : v);
        if constexpr (KIND == HALF)
            if (i != 0 && 2 * i != N) v = p.weight * v;
        long long at = UNIT ? (long long)i : i * p.out;
        if constexpr (KIND == PART) {
            y[at] = v.x;
        } else if constexpr (KIND == SPLIT && UNIT) {
            reinterpret_cast<float2*>(y)[i] = v;
        } else if constexpr (KIND == SPLIT) {
            y[2 * i * p.out] = v.x;
            y[(2 * i + 1) * p.out] = v.y;
        } else {
            y[at] = v;
        }
    }

    // exp(-2 pi i a / whole); a is reduced exactly before it becomes a float.
    __device__ static float2 turn(const Problem& p, long long a) {
        if (2 * a > p.whole) a -= p.whole;
        float s, c;
        sincospif(float(-2 * a) / float(p.whole), &s, &c);
        return {c, s};
    }

    // UNFOLDED: elements k and N - k of the transform of pairs make two of the spectrum.
    template <int N>
    __device__ static void pair(Element* y, const Problem& p, const float2* turns, int k, float2 a,
                                float2 b) {
        float2 e = 0.5f * (a + conjugate(b)), o = 0.5f * (a - conjugate(b)) * __ldg(turns + k);
        float2 q = {o.y, -o.x};
        float scale = p.scale * (k == 0 ? 1.0f : p.weight);
        y[UNIT ? k : k * p.out] = scale * (e + q);
        y[UNIT ? N - k : (N - k) * p.out] = scale * conjugate(e - q);
    }
};

// Writes what the threads hold after the last stage. c is the first transform of the block.
template <class S, class M, bool OUT, class W, bool USED>
__device__ __forceinline__ void finish(float2* v, float2* shared, typename W::Element* y,
                                       const Problem& p, const float2* turns, int c) {
    constexpr int N = S::N;
    constexpr bool WARP = !OUT && 32 % S::T == 0;
    Place to = place<S::T, M::C, OUT>();
    bool there = c + to.c < p.count;
    y += to.c * p.out_c;
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
        elements<S, S::COUNT - 1>(to.t, [&](int e, int i) {
            W::template at<N>(y, p, c + to.c, i, v[e]);
        });
    }
}
