// Quantised weights in registers, as elements of 16 bits for tensor cores: eight at a time, by bits
// that are put into numbers instead of conversions.
//
// T is __half or __nv_bfloat16. Every weight is exact in both.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "packed.cuh"

namespace weft {

// Formats of weights. INT4: two in a byte, the first in its lower bits, stored plus 8.
enum class Weights { INT4, INT8, E4M3, E5M2 };

// Words of 32 bits that eight weights take.
template <Weights F>
constexpr int WEIGHT_WORDS = F == Weights::INT4 ? 1 : 2;

// Returns words of two elements as the types of CUDA C++, and back.
__device__ inline __half2 as_half2(unsigned word) { return *reinterpret_cast<__half2*>(&word); }
__device__ inline __nv_bfloat162 as_bfloat162(unsigned word) {
    return *reinterpret_cast<__nv_bfloat162*>(&word);
}
template <class Pair>
__device__ inline unsigned as_word(Pair pair) {
    return *reinterpret_cast<unsigned*>(&pair);
}

// Converts the eight weights of a word, which are numbered by their bits: to[i] has weights i and
// i + 4. The bits of a weight are the last ones of 1024 (__half), or of 128 (__nv_bfloat16).
template <class T>
__device__ inline void dequantise_int4(unsigned* to, unsigned from);

template <>
__device__ inline void dequantise_int4<__half>(unsigned* to, unsigned from) {
    __half2 offset = __float2half2_rn(1024 + 8), high = __float2half2_rn(-(64 + 8));
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        unsigned word = from >> i * 4;
        to[i] = as_word(__hsub2(as_half2((word & 0x000f000f) | 0x64006400), offset));
        // Four bits further up they count 16 times as much.
        __half2 times_16 = as_half2((word & 0x00f000f0) | 0x64006400);
        to[i + 1] = as_word(__hfma2(times_16, __float2half2_rn(1.0f / 16), high));
    }
}
template <>
__device__ inline void dequantise_int4<__nv_bfloat16>(unsigned* to, unsigned from) {
    __nv_bfloat162 offset = __float2bfloat162_rn(128 + 8);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        unsigned word = from >> i * 4;
        to[i] = as_word(__hsub2(as_bfloat162((word & 0x000f000f) | 0x43004300), offset));
    }
}

// Converts the four signed bytes of a word: to[i] has weights 2 i and 2 i + 1.
template <class T>
__device__ inline void dequantise_int8(unsigned* to, unsigned from);

template <>
__device__ inline void dequantise_int8<__half>(unsigned* to, unsigned from) {
    unsigned plus_128 = from ^ 0x80808080;
    __half2 offset = __float2half2_rn(1024 + 128);
    to[0] = as_word(__hsub2(as_half2(__byte_perm(plus_128, 0x64646464, 0x4140)), offset));
    to[1] = as_word(__hsub2(as_half2(__byte_perm(plus_128, 0x64646464, 0x4342)), offset));
}
template <>
__device__ inline void dequantise_int8<__nv_bfloat16>(unsigned* to, unsigned from) {
    // 128 has too few bits after it: the bytes become the last bits of 2^23, a float. The upper
    // halves of the differences hold all of their digits.
    unsigned plus_128 = from ^ 0x80808080, bits[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        unsigned number = __byte_perm(plus_128, 0x4b000000, 0x7540 + i);
        bits[i] = __float_as_uint(__uint_as_float(number) - (8388608.0f + 128));
    }
    to[0] = __byte_perm(bits[0], bits[1], 0x7632);
    to[1] = __byte_perm(bits[2], bits[3], 0x7632);
}

// Converts two numbers of e4m3, in the lower half of a word, to two __half.
__device__ inline unsigned e4m3_to_half(unsigned pair) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    unsigned word;
    asm("{ .reg .b16 l; cvt.u16.u32 l, %1; cvt.rn.f16x2.e4m3x2 %0, l; }" : "=r"(word) : "r"(pair));
    return word;
#else
    unsigned apart = (pair & 0xff) | (pair & 0xff00) << 8, size = apart & 0x7f007f;
    unsigned scaled = (apart & 0x800080) << 8 | size << 7;  // 2^-8 of the number
    unsigned word = as_word(__hmul2(as_half2(scaled), __float2half2_rn(256.0f)));
    if ((size & 0x7f) == 0x7f) word |= 0x7fff;  // not a number
    if (size >> 16 == 0x7f) word |= 0x7fff0000;
    return word;
#endif
}

// Converts a word of two __half to two elements of T.
template <class T>
__device__ inline unsigned from_halves(unsigned word) {
    return pack<T>(unpack<__half>(word, 0), unpack<__half>(word, 1));
}
template <>
__device__ inline unsigned from_halves<__half>(unsigned word) {
    return word;
}

// Converts the four numbers of fp8 in a word: to[i] has numbers 2 i and 2 i + 1.
template <Weights F, class T>
__device__ inline void dequantise_fp8(unsigned* to, unsigned from) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        // A number of e5m2 is the upper half of a __half.
        unsigned halves = F == Weights::E5M2 ? __byte_perm(from, 0, i ? 0x3424 : 0x1404)
                                             : e4m3_to_half(from >> i * 16 & 0xffff);
        to[i] = from_halves<T>(halves);
    }
}

// Converts eight weights to four words of two elements. Element i of `arrange` below is the element
// of x that the weight at the same place multiplies.
template <Weights F, class T>
__device__ inline void dequantise(unsigned (&to)[4], const unsigned* from) {
    if constexpr (F == Weights::INT4) dequantise_int4<T>(to, from[0]);
    else
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if constexpr (F == Weights::INT8) dequantise_int8<T>(to + 2 * i, from[i]);
            else dequantise_fp8<F, T>(to + 2 * i, from[i]);
}

// Puts eight neighbouring elements of 16 bits into the order of eight weights of `dequantise`.
template <Weights F>
__device__ inline void arrange(unsigned (&to)[4], const unsigned* from) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
        to[i] = F == Weights::INT4
                    ? __byte_perm(from[i / 2], from[i / 2 + 2], i % 2 ? 0x7632 : 0x5410)
                    : from[i];
}

// Returns weight i of eight that `dequantise` has converted to __half.
template <Weights F>
__device__ inline float weight_at(const unsigned (&words)[4], int i) {
    return F == Weights::INT4 ? unpack<__half>(words[i % 4], i / 4)
                              : unpack<__half>(words[i / 2], i % 2);
}

}  // namespace weft
