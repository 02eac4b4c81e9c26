// Elements that stay packed in 32-bit registers: two of 16 bits or one float in each. Eight
// elements of 16 bits take four registers; as floats they would take eight.
//
// T names the type of the elements: float, __half or __nv_bfloat16. The header includes neither
// cuda_fp16.h nor cuda_bf16.h, which take longer to compile than most kernels.
#pragma once
#include "vector.cuh"

struct __half;
struct __nv_bfloat16;

namespace weft {

// Packs two floats into a word, `low` in its lower half, rounded to the nearest; a float is its own
// word, and `high` is unused.
template <class T>
__device__ inline unsigned pack(float low, float high);

template <>
__device__ inline unsigned pack<float>(float low, float) {
    return __float_as_uint(low);
}
template <>
__device__ inline unsigned pack<__half>(float low, float high) {
    unsigned word;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#else
    asm("{ .reg .f16 l, h; cvt.rn.f16.f32 l, %2; cvt.rn.f16.f32 h, %1; mov.b32 %0, {l, h}; }"
        : "=r"(word)
        : "f"(high), "f"(low));
#endif
    return word;
}
template <>
__device__ inline unsigned pack<__nv_bfloat16>(float low, float high) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    auto rounded = [](float x) {
        unsigned bits = __float_as_uint(x);
        return x != x ? 0x7fffu : bits + 0x7fff + (bits >> 16 & 1) >> 16;
    };
    return rounded(low) | rounded(high) << 16;
#endif
}

// Packs two floats into a word of two __half; those beyond the range become the largest __half.
__device__ inline unsigned pack_saturated(float low, float high) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    unsigned word;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    auto limited = [](float x) { return x != x ? x : fminf(fmaxf(x, -65504.0f), 65504.0f); };
    return pack<__half>(limited(low), limited(high));
#endif
}

// Returns element i of a word as a float: of 16-bit elements the lower one where i is even.
template <class T>
__device__ inline float unpack(unsigned word, int i);

template <>
__device__ inline float unpack<float>(unsigned word, int) {
    return __uint_as_float(word);
}
template <>
__device__ inline float unpack<__half>(unsigned word, int i) {
    float x;
    if (i % 2)
        asm("{ .reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h; }" : "=f"(x) : "r"(word));
    else asm("{ .reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l; }" : "=f"(x) : "r"(word));
    return x;
}
template <>
__device__ inline float unpack<__nv_bfloat16>(unsigned word, int i) {
    return __uint_as_float(i % 2 ? word & 0xffff0000u : word << 16);
}

// N elements in words.
template <class T, int N>
struct Packed {
    static constexpr int EACH = 4 / sizeof(T), WORDS = (N + EACH - 1) / EACH;
    unsigned word[WORDS];

    // Returns element i as a float.
    __device__ float operator[](int i) const { return unpack<T>(word[i / EACH], i); }

    // Returns f(element, i) for each element; i is known at compile time.
    template <class F>
    __device__ Packed map(F f) const {
        Packed made;
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            int a = w * EACH, b = a + EACH - 1 < N ? a + EACH - 1 : a;
            float first = f((*this)[a], a);
            made.word[w] = pack<T>(first, b == a ? 0 : f((*this)[b], b));
        }
        return made;
    }
    // Makes the compiler unpack the words again at their next use, instead of keeping floats.
    __device__ void forget() {
#pragma unroll
        for (int w = 0; w < WORDS; ++w) opaque(word[w]);
    }
};

}  // namespace weft
