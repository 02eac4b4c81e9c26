// The operations of reductions, and how the threads of a group join what they have.
//
// An operation is a struct: State holds what is known of some elements, `none` of no element, `add`
// takes one more, `join` unites two states and `finish` gives the result.
#pragma once
#include "../../../core/cuda/operations.cuh"

template <class C>
__device__ C mean_of(C sum, double n) {
    return sum / C(n);
}
// The same bits as by a division, whose instructions would be those for each element: the product
// with the reciprocal, and what is missing of it. Infinity and NaN stay.
__device__ inline float mean_of(float sum, double n) {
    float count = float(n), part = 1 / count, mean = sum * part;
    float rest = fmaf(-mean, count, sum);
    return fabsf(mean) < __int_as_float(0x7f800000) ? fmaf(rest, part, mean) : mean;
}

template <class C> struct Mean : Sum<C> {
    static __device__ C finish(C s, double n) { return mean_of(s, n); }
};
// The first of equal elements; the first NaN if there is one.
template <class C> struct Found {
    C value;
    long long at;
};
template <class C> struct ArgMax {
    using State = Found<C>;
    static __device__ State none() { return {least<C>(), 0x7fffffffffffffffll}; }
    static __device__ State join(State a, State b) {
        bool nan_a = is_nan(a.value), nan_b = is_nan(b.value);
        bool first = nan_a != nan_b                ? nan_a
                     : nan_a || a.value == b.value ? a.at < b.at
                                                   : a.value > b.value;
        return first ? a : b;
    }
    static __device__ void add(State& s, C x, long long at) { s = join(s, {x, at}); }
    static __device__ long long finish(State s, double) { return s.at; }
};
template <class C> struct ArgMin : ArgMax<C> {
    using State = Found<C>;
    static __device__ State none() { return {greatest<C>(), 0x7fffffffffffffffll}; }
    static __device__ State join(State a, State b) {
        bool nan_a = is_nan(a.value), nan_b = is_nan(b.value);
        bool first = nan_a != nan_b                ? nan_a
                     : nan_a || a.value == b.value ? a.at < b.at
                                                   : a.value < b.value;
        return first ? a : b;
    }
    static __device__ void add(State& s, C x, long long at) { s = join(s, {x, at}); }
};
template <class C> struct Norm1 : Sum<C> {
    static __device__ void add(C& s, C x, long long) { s += x < 0 ? -x : x; }
};
template <class C> struct Norm2 : Sum<C> {
    static __device__ void add(C& s, C x, long long) { s += x * x; }
    static __device__ C finish(C s, double) { return sqrt(s); }
};
template <class C> struct NormInf : Max<C> {
    static __device__ C none() { return 0; }
    static __device__ void add(C& s, C x, long long) { s = Max<C>::join(s, x < 0 ? -x : x); }
};
// The mean and the sum of squared differences from it, element by element (Welford 1962); states
// are joined as Chan, Golub and LeVeque do. Its error does not grow with the mean, nor with how far
// the first elements are from it.
template <class C> struct Moments {
    C count, mean, squares;
};
__device__ inline float reciprocal(float x) { return __fdividef(1, x); }  // of a small integer
__device__ inline double reciprocal(double x) { return 1 / x; }
template <class C> struct Var {
    using State = Moments<C>;
    static __device__ State none() { return {0, 0, 0}; }
    static __device__ void add(State& s, C x, long long) {
        C d = x - s.mean;
        s.count += 1, s.mean += d * reciprocal(s.count), s.squares += d * (x - s.mean);
    }
    static __device__ State join(State a, State b) {
        if (b.count == 0) return a;
        if (a.count == 0) return b;
        C n = a.count + b.count, d = b.mean - a.mean, part = b.count / n;
        return {n, a.mean + d * part, a.squares + b.squares + d * d * a.count * part};
    }
    // `less` is the number of elements less the correction; 0 or less gives NaN or infinity, as in
    // torch.
    static __device__ C finish(State s, double less) { return s.squares / C(less > 0 ? less : 0); }
};
template <class C> struct Any {
    using State = int;
    static __device__ State none() { return 0; }
    static __device__ void add(State& s, C x, long long) { s |= x != 0; }
    static __device__ State join(State a, State b) { return a | b; }
    static __device__ bool finish(State s, double) { return s; }
};
template <class C> struct All {
    using State = int;
    static __device__ State none() { return 1; }
    static __device__ void add(State& s, C x, long long) { s &= x != 0; }
    static __device__ State join(State a, State b) { return a & b; }
    static __device__ bool finish(State s, double) { return s; }
};
template <class C> struct Count {
    using State = long long;
    static __device__ State none() { return 0; }
    static __device__ void add(State& s, C x, long long) { s += x != 0; }
    static __device__ State join(State a, State b) { return a + b; }
    static __device__ long long finish(State s, double) { return s; }
};
