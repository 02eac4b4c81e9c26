// Operations that unite states in any grouping: `none` is the state of no element, `join` unites
// two.
#pragma once

template <class T> __device__ T least();
template <class T> __device__ T greatest();
#define LIMITS(T, LEAST, GREATEST)                               \
    template <> __device__ inline T least<T>() { return LEAST; } \
    template <> __device__ inline T greatest<T>() { return GREATEST; }
LIMITS(float, __int_as_float(0xff800000), __int_as_float(0x7f800000))
LIMITS(double, -__longlong_as_double(0x7ff0000000000000ll),
       __longlong_as_double(0x7ff0000000000000ll))
LIMITS(long long, -9223372036854775807ll - 1, 9223372036854775807ll)
LIMITS(int, -2147483647 - 1, 2147483647)

template <class C> __device__ bool is_nan(C x) { return x != x; }

// C is the type of the arithmetic.
template <class C> struct Sum {
    using State = C;
    static __device__ State none() { return 0; }
    static __device__ void add(State& s, C x, long long) { s += x; }
    static __device__ State join(State a, State b) { return a + b; }
    static __device__ C finish(State s, double) { return s; }
};
template <class C> struct Product {
    using State = C;
    static __device__ State none() { return 1; }
    static __device__ void add(State& s, C x, long long) { s *= x; }
    static __device__ State join(State a, State b) { return a * b; }
    static __device__ C finish(State s, double) { return s; }
};
template <class C> struct Max {
    using State = C;
    static __device__ State none() { return least<C>(); }
    static __device__ State join(State a, State b) { return is_nan(a) || a > b ? a : b; }
    static __device__ void add(State& s, C x, long long) { s = join(s, x); }
    static __device__ C finish(State s, double) { return s; }
};
template <class C> struct Min {
    using State = C;
    static __device__ State none() { return greatest<C>(); }
    static __device__ State join(State a, State b) { return is_nan(a) || a < b ? a : b; }
    static __device__ void add(State& s, C x, long long) { s = join(s, x); }
    static __device__ C finish(State s, double) { return s; }
};
