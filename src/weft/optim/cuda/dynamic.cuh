// Numbers of 8 bits with a scale for each block of 256: dynamic quantisation (Dettmers, "8-bit
// optimizers via block-wise quantization", 2022). Decades of the range have 1, 2, 4, ... steps of
// equal width, the highest one most.
//
// A code c > 0 with k = floor(log2(c)) is step j = c + 1 - 2^k of the decade from 10^(k - TOP) / 10
// to 10^(k - TOP): (0.1 + 0.9 * j / 2^k) * 10^(k - TOP). The last step is the first point of the
// next decade, so that the nearest code is a rounded linear function in each decade. Code 0 is 0.
// TOP is 6 for numbers with a sign in the highest bit, else 7.
#pragma once

// Both linear functions of each decade, in shared memory: lanes that differ in their decade read
// different banks.
template <int TOP>
struct Dynamic {
    float2 to_value[TOP + 1], to_code[TOP + 1];  // factor and addend

    // By the threads k = 0 ... TOP; a barrier must follow.
    __device__ void begin(int k) {
        if (k > TOP) return;
        float steps = 1 << k, end = exp10f(static_cast<float>(k - TOP));
        to_value[k] = {0.9f / steps * end, (0.9f / steps - 0.8f) * end};
        to_code[k] = {steps / (0.9f * end), steps - 1 - steps / 9};
    }
    __device__ float decode(unsigned code) const {
        float number = static_cast<float>(code);
        if (code == 0) return 0.0f;
        float2 line = to_value[(__float_as_int(number) >> 23) - 127];
        return fmaf(number, line.x, line.y);
    }
    // The nearest code of x in [0, 1]. Near a power of ten, both decades have the same code.
    __device__ unsigned encode(float x) const {
        int k = __float2int_ru(fmaf(__log2f(x), 0.30102999566f, TOP));
        float2 line = to_code[k < 0 ? 0 : k > TOP ? TOP : k];
        int code = __float2int_rn(fmaf(x, line.x, line.y));
        return code<0 ? 0 : code>(2 << TOP) - 1 ? (2 << TOP) - 1 : code;
    }
};

struct WithSign : Dynamic<6> {
    __device__ float decode(unsigned byte) const {
        float magnitude = Dynamic::decode(byte & 127);
        return byte & 128 ? -magnitude : magnitude;
    }
    __device__ unsigned encode(float x) const {
        return Dynamic::encode(fabsf(x)) | (x < 0 ? 128u : 0u);
    }
};

struct WithoutSign : Dynamic<7> {
    // A number that is not 0 does not become 0: it is a variance, by which an update is divided.
    __device__ unsigned encode(float x) const {
        unsigned code = Dynamic::encode(x);
        return code == 0 && x > 0 ? 1u : code;
    }
};
