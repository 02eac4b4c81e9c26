// Sums and other reductions of the types of NCCL, in the order of the ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace weft {

// 16-bit floats are reduced as f32 and rounded to nearest even once, at the end.
inline float half_to_float(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? std::ldexp(float(fraction), -24)
                                 : std::ldexp(float(fraction + 1024), exponent - 25);
    return bits >> 15 ? -size : size;
}
inline uint16_t float_to_half(float value) {
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return 0x7fff;
    float size = std::fabs(value);
    if (size >= 65520) return sign | 0x7c00;
    // The unit in the last place of a half of this size; nearbyint rounds to even.
    int exponent = size < 0x1p-14f ? -14 : std::ilogb(size);
    float units = std::nearbyint(std::ldexp(size, 10 - exponent));
    int count = int(units);
    if (size < 0x1p-14f) return sign | count;
    return sign | (((exponent + 15) << 10) + (count - 1024));
}
inline float bfloat_to_float(uint16_t bits) {
    uint32_t wide = uint32_t(bits) << 16;
    float out;
    memcpy(&out, &wide, 4);
    return out;
}
inline uint16_t float_to_bfloat(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (std::isnan(value)) return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

enum RankReduction { reduce_sum, reduce_product, reduce_max, reduce_min, reduce_average };

template <class T>
T combined(T a, T b, int op) {
    switch (op) {
        case reduce_product: return a * b;
        case reduce_max: return std::max(a, b);
        case reduce_min: return std::min(a, b);
        default: return a + b;
    }
}

}  // namespace weft
