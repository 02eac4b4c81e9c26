// Elements of 8 bits, four in a word: signed integers and fp8 from floats, and integers to 16 bits.
//
// The types of elements are signed char, E4m3 and E5m2. The first of four is in the lowest byte.
#pragma once
#include "packed.cuh"

namespace weft {

// Elements of fp8 with four or five bits of exponent.
struct E4m3 {
    unsigned char bits;
};
struct E5m2 {
    unsigned char bits;
};

// The largest number of a type of 8 bits: the one that quantising maps the largest element to.
template <class Q>
constexpr float LARGEST = 127;
template <>
constexpr float LARGEST<E4m3> = 448;
template <>
constexpr float LARGEST<E5m2> = 57344;

// Converts a float to fp8 with MANTISSA bits below the first and the bias BIAS of its exponent, to
// the nearest, ties to even; what is too large becomes MOST, and NaN 0x7f. Before sm_89 there is no
// instruction for it.
template <int MANTISSA, int BIAS, unsigned MOST>
__device__ inline unsigned fp8_bits(float x) {
    unsigned bits = __float_as_uint(x), sign = bits >> 24 & 0x80, size = bits & 0x7fffffff;
    constexpr int DROPPED = 23 - MANTISSA;
    // The unit of the smallest numbers is that of floats from 2^23 times it on.
    constexpr unsigned SMALL = (23 + 1 - BIAS - MANTISSA + 127u) << 23;
    unsigned even = size + (1u << DROPPED - 1) - 1 + (size >> DROPPED & 1);
    unsigned made = (even >> DROPPED) - ((127 - BIAS) << MANTISSA);
    if (size < (128u - BIAS) << 23)
        made = __float_as_uint(__uint_as_float(size) + __uint_as_float(SMALL)) - SMALL;
    return size > 0x7f800000 ? 0x7f : (made > MOST ? MOST : made) | sign;
}

// Packs four floats into a word, rounded to the nearest, ties to even. What is too large becomes
// the largest number of its sign; NaN becomes 0 as an integer, and NaN in fp8.
template <class Q>
__device__ inline unsigned pack_bytes(float a, float b, float c, float d);

template <>
__device__ inline unsigned pack_bytes<signed char>(float a, float b, float c, float d) {
    unsigned word;
    int w = __float2int_rn(a), x = __float2int_rn(b), y = __float2int_rn(c), z = __float2int_rn(d);
    asm("{ .reg .b32 high; cvt.pack.sat.s8.s32.b32 high, %4, %3, 0;"
        " cvt.pack.sat.s8.s32.b32 %0, %2, %1, high; }"
        : "=r"(word)
        : "r"(w), "r"(x), "r"(y), "r"(z));
    return word;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
#define WEFT_PACK_FP8(Q, TYPE, MANTISSA, BIAS, MOST)                                  \
    template <>                                                                       \
    __device__ inline unsigned pack_bytes<Q>(float a, float b, float c, float d) {    \
        unsigned word;                                                                \
        asm("{ .reg .b16 low, high; cvt.rn.satfinite." TYPE                           \
            ".f32 low, %2, %1;"                                                       \
            " cvt.rn.satfinite." TYPE ".f32 high, %4, %3; mov.b32 %0, {low, high}; }" \
            : "=r"(word)                                                              \
            : "f"(a), "f"(b), "f"(c), "f"(d));                                        \
        return word;                                                                  \
    }
#else
#define WEFT_PACK_FP8(Q, TYPE, MANTISSA, BIAS, MOST)                               \
    template <>                                                                    \
    __device__ inline unsigned pack_bytes<Q>(float a, float b, float c, float d) { \
        constexpr auto bits = fp8_bits<MANTISSA, BIAS, MOST>;                      \
        return bits(a) | bits(b) << 8 | bits(c) << 16 | bits(d) << 24;             \
    }
#endif
WEFT_PACK_FP8(E4m3, "e4m3x2", 3, 7, 0x7e)
WEFT_PACK_FP8(E5m2, "e5m2x2", 2, 15, 0x7b)
#undef WEFT_PACK_FP8

// Converts four signed integers of 8 bits to T, two in a word: exactly, as T has 8 bits or more.
template <class T>
__device__ inline uint2 unpack_int8(unsigned word) {
    // With the sign bit turned a byte is the number plus 128; it becomes the end of a float's
    // mantissa, from which the sum is taken away.
    word ^= 0x80808080;
    constexpr unsigned BASE = 0x4b000000;  // 2^23
    float at[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        at[i] = __uint_as_float(__byte_perm(word, BASE, 0x7440 + i)) - (8388608.0f + 128);
    return make_uint2(pack<T>(at[0], at[1]), pack<T>(at[2], at[3]));
}

}  // namespace weft
