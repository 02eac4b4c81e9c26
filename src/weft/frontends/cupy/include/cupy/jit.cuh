// The parts of kernels of cupyx.jit: arrays with strides, and Python's operators.
#pragma once

namespace weft_jit {

typedef long long Length;

// clang-format off: tables of one line each
template <typename T> struct Decay { typedef T type; };
template <typename T> struct Decay<T &> { typedef T type; };
template <typename T> struct Decay<const T> { typedef T type; };
template <typename T> struct Decay<const T &> { typedef T type; };
template <typename T, int N> struct Decay<T[N]> { typedef const T *type; };
template <typename T, int N> struct Decay<const T[N]> { typedef const T *type; };

template <bool yes, typename A, typename B> struct Choose { typedef A type; };
template <typename A, typename B> struct Choose<false, A, B> { typedef B type; };
template <typename T> struct IsInteger { static constexpr bool value = false; };
#define WEFT_INTEGER(type) \
    template <> struct IsInteger<type> { static constexpr bool value = true; };
// clang-format on
WEFT_INTEGER(bool)
WEFT_INTEGER(int)
WEFT_INTEGER(unsigned)
WEFT_INTEGER(long)
WEFT_INTEGER(unsigned long)
WEFT_INTEGER(long long)
WEFT_INTEGER(unsigned long long)

template <typename T, typename I> __device__ T* moved(T* data, I index, Length stride) {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(data) + index * stride);
}

// An array with N axes; strides count bytes. Fewer than N indices select an array.
template <typename T, int N> struct Array {
    T* data;
    Length size, shape[N], strides[N];
    static constexpr int ndim = N;

    template <typename I> __device__ auto operator[](I index) const -> Array<T, N - 1> {
        Array<T, N - 1> part;
        part.data = moved(data, index, strides[0]);
        part.size = shape[0] ? size / shape[0] : 0;
        for (int i = 1; i < N; i++) {
            part.shape[i - 1] = shape[i];
            part.strides[i - 1] = strides[i];
        }
        return part;
    }
};

template <typename T> struct Array<T, 1> {
    T* data;
    Length size, shape[1], strides[1];
    static constexpr int ndim = 1;
    template <typename I> __device__ T& operator[](I index) const {
        return *moved(data, index, strides[0]);
    }
};

template <typename T> struct Array<T, 0> {
    T* data;
    Length size;
    static constexpr int ndim = 0;
};

template <typename T, int N> __device__ Length len(const Array<T, N>& x) { return x.shape[0]; }
template <typename T, int N> __device__ constexpr Length len(T (&)[N]) { return N; }

// `x[()]` of an array without axes.
template <typename T> __device__ T& at(const Array<T, 0>& x) { return *x.data; }
template <typename A, typename I> __device__ decltype(auto) at(const A& x, I i) { return x[i]; }
template <typename T, typename I> __device__ T& at(T* x, I i) { return x[i]; }
template <typename A, typename I, typename... More>
__device__ decltype(auto) at(const A& x, I i, More... more) {
    return at(x[i], more...);
}

template <typename A, typename B> __device__ auto truediv(A a, B b) {
    typedef typename Choose<IsInteger<decltype(a + b)>::value, double, decltype(a + b)>::type Q;
    return Q(a) / Q(b);
}

template <typename A, typename B> __device__ auto floordiv(A a, B b) {
    typedef decltype(a + b) Q;
    if constexpr (IsInteger<Q>::value) {
        const Q x = a, y = b, q = y == Q(0) ? Q(0) : x / y;
        return Q(q - (y != Q(0) && x % y != Q(0) && (x < Q(0)) != (y < Q(0))));
    } else {
        return Q(floor(Q(a) / Q(b)));
    }
}

template <typename A, typename B> __device__ auto mod(A a, B b) {
    typedef decltype(a + b) Q;
    const Q x = a, y = b;
    Q r;
    if constexpr (IsInteger<Q>::value) r = y == Q(0) ? Q(0) : x % y;
    else r = fmod(x, y);
    return Q(r != Q(0) && (r < Q(0)) != (y < Q(0)) ? r + y : r);
}

template <typename A, typename B> __device__ auto power(A a, B b) {
    typedef decltype(a + b) Q;
    if constexpr (IsInteger<Q>::value) {
        Q out = 1, base = a;
        for (Q n = b; n > Q(0); n >>= 1, base *= base)
            if (n & Q(1)) out *= base;
        return out;
    } else {
        return Q(pow(Q(a), Q(b)));
    }
}

template <typename A> __device__ A smallest(A a) { return a; }
template <typename A, typename B, typename... More>
__device__ auto smallest(A a, B b, More... more) {
    return smallest(b < a ? decltype(a + b)(b) : decltype(a + b)(a), more...);
}
template <typename A> __device__ A largest(A a) { return a; }
template <typename A, typename B, typename... More>
__device__ auto largest(A a, B b, More... more) {
    return largest(a < b ? decltype(a + b)(b) : decltype(a + b)(a), more...);
}

template <typename A> __device__ A absolute(A a) { return a < A(0) ? A(-a) : a; }

// CUDA has no atomic addition of signed 64-bit integers; the unsigned one has the same bits.
// clang-format off: tables of one line each
template <typename T> struct Atomic { typedef T type; };
template <> struct Atomic<long long> { typedef unsigned long long type; };
template <> struct Atomic<long> { typedef unsigned long long type; };
template <> struct Atomic<unsigned long> { typedef unsigned long long type; };
// clang-format on
#define WEFT_ATOMIC(name, call)                                              \
    template <typename T, typename V> __device__ T name(T* place, V value) { \
        typedef typename Atomic<T>::type A;                                  \
        return T(call(reinterpret_cast<A*>(place), A(T(value))));            \
    }
WEFT_ATOMIC(atomic_add, atomicAdd)
WEFT_ATOMIC(atomic_exch, atomicExch)
WEFT_ATOMIC(atomic_and, atomicAnd)
WEFT_ATOMIC(atomic_or, atomicOr)
WEFT_ATOMIC(atomic_xor, atomicXor)
WEFT_ATOMIC(atomic_inc, atomicInc)
WEFT_ATOMIC(atomic_dec, atomicDec)
template <typename T, typename V> __device__ T atomic_sub(T* place, V value) {
    return atomic_add(place, T(-T(value)));
}
template <typename T, typename V> __device__ T atomic_min(T* place, V value) {
    return atomicMin(place, T(value));
}
template <typename T, typename V> __device__ T atomic_max(T* place, V value) {
    return atomicMax(place, T(value));
}
template <typename T, typename E, typename V>
__device__ T atomic_cas(T* place, E expected, V value) {
    typedef typename Atomic<T>::type A;
    return T(atomicCAS(reinterpret_cast<A*>(place), A(T(expected)), A(T(value))));
}

__device__ inline unsigned laneid() {
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

}  // namespace weft_jit
