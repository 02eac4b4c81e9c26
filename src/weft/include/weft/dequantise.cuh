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

// The number whose last bits become those of a weight, twice: 1024 or 128. An instruction takes one
// literal only, and the other one is the mask of the weights: see Dequantiser.
template <class T>
constexpr unsigned MAGIC = 0x64006400;
template <>
constexpr unsigned MAGIC<__nv_bfloat16> = 0x43004300;

// Converts the eight weights of a word, which are numbered by their bits: to[i] has weights i and
// i + 4.
template <class T>
__device__ inline void dequantise_int4(unsigned* to, unsigned from, unsigned magic);

template <>
__device__ inline void dequantise_int4<__half>(unsigned* to, unsigned from, unsigned magic) {
    __half2 offset = __float2half2_rn(1024 + 8), high = __float2half2_rn(-(64 + 8));
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        unsigned word = from >> i * 4;
        to[i] = as_word(__hsub2(as_half2((word & 0x000f000f) | magic), offset));
        // Four bits further up they count 16 times as much.
        __half2 times_16 = as_half2((word & 0x00f000f0) | magic);
        to[i + 1] = as_word(__hfma2(times_16, __float2half2_rn(1.0f / 16), high));
    }
}
template <>
__device__ inline void dequantise_int4<__nv_bfloat16>(unsigned* to, unsigned from, unsigned magic) {
    __nv_bfloat162 offset = __float2bfloat162_rn(128 + 8);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        unsigned word = from >> i * 4;
        to[i] = as_word(__hsub2(as_bfloat162((word & 0x000f000f) | magic), offset));
    }
}

// The same, greater by INT4_OFFSET<T>: products with it are made good once for many weights.
template <class T>
constexpr float INT4_OFFSET = 1024 + 8;
template <>
constexpr float INT4_OFFSET<__nv_bfloat16> = 128 + 8;
__device__ inline void offset_int4(unsigned (&to)[4], unsigned from, unsigned magic) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = (from >> i * 4 & 0x000f000f) | magic;
}

// Converts the four signed bytes of a word: to[i] has weights 2 i and 2 i + 1.
template <class T>
__device__ inline void dequantise_int8(unsigned* to, unsigned from, unsigned magic);

template <>
__device__ inline void dequantise_int8<__half>(unsigned* to, unsigned from, unsigned magic) {
    unsigned plus_128 = from ^ 0x80808080;
    __half2 offset = __float2half2_rn(1024 + 128);
    to[0] = as_word(__hsub2(as_half2(__byte_perm(plus_128, magic, 0x5150)), offset));
    to[1] = as_word(__hsub2(as_half2(__byte_perm(plus_128, magic, 0x5352)), offset));
}
template <>
__device__ inline void dequantise_int8<__nv_bfloat16>(unsigned* to, unsigned from, unsigned magic) {
    // 128 has seven bits after it, and the next one doubles it: the lower bits of a weight in 128,
    // less 128 or, where it is negative, 256.
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        unsigned pair = __byte_perm(from, 0, i ? 0x4342 : 0x4140);
        unsigned low = (pair & 0x007f007f) | magic, sign = (pair & 0x00800080) | magic;
        to[i] = as_word(__hsub2(as_bfloat162(low), as_bfloat162(sign)));
    }
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

// Converts eight weights to four words of two elements, in the order of `arrange` below. `magic` is
// MAGIC<T>. A kernel with loops gets it as an argument: the compiler loads a literal anew for each
// weight.
template <Weights F, class T>
struct Dequantiser {
    unsigned magic = MAGIC<T>;

    __device__ void convert(unsigned (&to)[4], const unsigned* from) const {
        if constexpr (F == Weights::INT4) dequantise_int4<T>(to, from[0], magic);
        else
#pragma unroll
            for (int i = 0; i < 2; ++i)
                if constexpr (F == Weights::INT8) dequantise_int8<T>(to + 2 * i, from[i], magic);
                else dequantise_fp8<F, T>(to + 2 * i, from[i]);
    }
};

// Puts eight neighbouring elements of 16 bits into the order of eight weights of a Dequantiser.
template <Weights F>
__device__ inline void arrange(unsigned (&to)[4], const unsigned* from) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
        to[i] = F == Weights::INT4
                    ? __byte_perm(from[i / 2], from[i / 2 + 2], i % 2 ? 0x7632 : 0x5410)
                    : from[i];
}

// Returns weight i of eight that a Dequantiser has converted to __half.
template <Weights F>
__device__ inline float weight_at(const unsigned (&words)[4], int i) {
    return F == Weights::INT4 ? unpack<__half>(words[i % 4], i / 4)
                              : unpack<__half>(words[i / 2], i % 2);
}

}  // namespace weft
