// Keys: elements as unsigned integers that compare as PyTorch orders the elements.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <int BYTES> struct Unsigned;
template <> struct Unsigned<1> {
    using Type = unsigned char;
};
template <> struct Unsigned<2> {
    using Type = unsigned short;
};
template <> struct Unsigned<4> {
    using Type = unsigned;
};
template <> struct Unsigned<8> {
    using Type = unsigned long long;
};

// The bits of infinity for a floating-point type, 0 for others.
template <class T> constexpr unsigned long long INFINITE = 0;
template <> constexpr unsigned long long INFINITE<float> = 0x7f800000;
template <> constexpr unsigned long long INFINITE<double> = 0x7ff0000000000000;
template <> constexpr unsigned long long INFINITE<__half> = 0x7c00;
template <> constexpr unsigned long long INFINITE<__nv_bfloat16> = 0x7f80;

template <class T> constexpr bool SIGNED = false;
template <> constexpr bool SIGNED<signed char> = true;
template <> constexpr bool SIGNED<short> = true;
template <> constexpr bool SIGNED<int> = true;
template <> constexpr bool SIGNED<long long> = true;

template <class T>
struct Keys {
    using U = typename Unsigned<sizeof(T)>::Type;
    static constexpr int BITS = 8 * sizeof(T);
    static constexpr U TOP = U(U(1) << (BITS - 1)), ALL = U(~U(0));
    static constexpr bool FLOATING = INFINITE<T> != 0;
    U flip;

    __device__ explicit Keys(bool descending) : flip(descending ? ALL : U(0)) {}

    // The key of an element. All NaN have the same one, beyond infinity.
    __device__ U of(T x) const {
        U bits;
        memcpy(&bits, &x, sizeof(T));
        if constexpr (FLOATING) {
            bool nan = U(bits & U(~TOP)) > U(INFINITE<T>);
            bits = nan ? ALL : bits & TOP ? U(~bits) : U(bits | TOP);
        } else if constexpr (SIGNED<T>) {
            bits ^= TOP;
        }
        return bits ^ flip;
    }
    __device__ T value(U key) const {
        U bits = key ^ flip;
        if constexpr (FLOATING) bits = bits & TOP ? U(bits ^ TOP) : U(~bits);
        else if constexpr (SIGNED<T>) bits ^= TOP;
        T x;
        memcpy(&x, &bits, sizeof(T));
        return x;
    }
    // The key to compare by: that of 0.0 for -0.0, which keeps a key of its own for its value.
    __device__ U compared(U key) const {
        if constexpr (FLOATING) return key == minus_zero() ? U(TOP ^ flip) : key;
        else return key;
    }
    __device__ U minus_zero() const { return U(U(~TOP) ^ flip); }
    __device__ unsigned digit(U key, int shift) const {
        return unsigned(compared(key) >> shift) & 255u;
    }
};
