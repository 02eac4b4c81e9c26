// Numbers of 8 bits with a scale for each block of 256: dynamic quantisation (Dettmers, "8-bit optimizers via block-wise
// quantization", 2022). Decades of the range have 1, 2, 4, ... steps of equal width, the highest one most.
//
// A code c > 0 with k = floor(log2(c)) is step j = c + 1 - 2^k of the decade from 10^(k - TOP) / 10 to 10^(k - TOP):
// (0.1 + 0.9 * j / 2^k) * 10^(k - TOP). The last step is the first point of the next decade, so that the nearest code is
// a rounded linear function in each decade. Code 0 is 0.
#pragma once

// TOP + 1 bits: 6 for numbers with a sign in the highest bit, 7 for numbers without.
template <int TOP>
__device__ inline float decode(unsigned code) {
    if (code == 0) return 0.0f;
    int k = 31 - __clz(code);
    float j = static_cast<float>(code + 1 - (1u << k));
    // 2^-k as bits of a float.
    return fmaf(0.9f * j, __int_as_float((127 - k) << 23), 0.1f) * exp10f(static_cast<float>(k - TOP));
}

// The nearest code of x in [0, 1].
template <int TOP>
__device__ inline unsigned encode(float x) {
    int k = TOP + static_cast<int>(ceilf(__log10f(x)));  // near a power of ten, both decades have the same code
    k = k < 0 ? 0 : k > TOP ? TOP : k;
    float steps = static_cast<float>(1 << k);
    float j = fmaf(x, exp10f(static_cast<float>(TOP - k)), -0.1f) * (steps / 0.9f);
    int code = __float2int_rn(j) + (1 << k) - 1;
    return code < 0 ? 0 : code > (2 << TOP) - 1 ? (2 << TOP) - 1 : code;
}

__device__ inline float decode_signed(unsigned byte, float scale) {
    float magnitude = decode<6>(byte & 127) * scale;
    return byte & 128 ? -magnitude : magnitude;
}
__device__ inline float decode_unsigned(unsigned byte, float scale) { return decode<7>(byte) * scale; }

// `scale` is the largest magnitude of the block; 0 for a block of zeros.
__device__ inline unsigned encode_signed(float x, float scale) {
    return scale > 0 ? encode<6>(fabsf(x) / scale) | (x < 0 ? 128u : 0u) : 0u;
}
// A number that is not 0 does not become 0: it is a variance, by which an update is divided.
__device__ inline unsigned encode_unsigned(float x, float scale) {
    if (!(scale > 0)) return 0;
    unsigned code = encode<7>(x / scale);
    return code == 0 && x > 0 ? 1u : code;
}
