// Texture fetches: addressing, filtering and levels of detail, as the hardware rounds them.
#include "request.h"
#include "srgb.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
float half_to_float(uint16_t h) {
    uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    if (exponent == 31) return float_of(sign | 0x7f800000 | mantissa << 13);
    if (exponent) return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
    float tiny = float(mantissa) * 0x1p-24f;
    return sign ? -tiny : tiny;
}

// ---- texels -------------------------------------------------------------------------------------

uint32_t channel(const Object &o, const char *at, bool colour) {
    uint32_t raw = 0;
    memcpy(&raw, at, o.format.bits / 8);
    bool real = o.format.kind == cudaChannelFormatKindFloat;
    if (real) return o.format.bits == 32 ? raw : bits_of(half_to_float(uint16_t(raw)));
    bool is_signed = o.format.kind == cudaChannelFormatKindSigned;
    int32_t value = is_signed ? int32_t(raw << (32 - o.format.bits)) >> (32 - o.format.bits)
                              : int32_t(raw);
    if (o.desc.readMode != cudaReadModeNormalizedFloat) return uint32_t(value);
    if (colour && o.desc.sRGB && o.format.bits == 8 && !is_signed) 
        return bits_of(float(SRGB[value]) / 65536);
    float most = float((1u << (o.format.bits - is_signed)) - 1);
    return bits_of(std::max(float(value) / most, -1.0f));
}

// The place of a texel; a place outside has the border's colour.
struct Place {
    int x, y, z;
    bool outside;
};

// The border's colour as a texel of the format would hold it.
uint32_t border(const Object &o, float colour) {
    if (o.format.kind == cudaChannelFormatKindFloat || o.format.bits == 32) return bits_of(colour);
    if (!o.real()) return bits_of(colour) & ((1u << o.format.bits) - 1);
    bool is_signed = o.format.kind == cudaChannelFormatKindSigned;
    float most = float((1u << (o.format.bits - is_signed)) - 1);
    float inside = std::clamp(colour, is_signed ? -1.0f : 0.0f, 1.0f);
    return bits_of(std::rint(inside * most) / most);
}

Texel read(const Object &o, const Level &level, const Place &at) {
    Texel out = {{0, 0, 0, 0}};
    if (at.outside) {
        for (int i = 0; i < o.format.channels; i++) out.bits[i] = border(o, o.desc.borderColor[i]);
        return out;
    }
    const char *texel =
        level.data + at.z * level.plane + at.y * level.pitch + at.x * o.format.bytes();
    for (int i = 0; i < o.format.channels; i++)
        out.bits[i] = channel(o, texel + i * o.format.bits / 8, i < 3);
    return out;
}

// ---- addressing ---------------------------------------------------------------------------------

constexpr int FRACTION = 8;  // bits of a weight

// An index inside the axis; -1 for the border.
int64_t address(int64_t i, int64_t n, cudaTextureAddressMode mode) {
    switch (mode) {
        case cudaAddressModeWrap: return ((i % n) + n) % n;
        case cudaAddressModeMirror: {
            int64_t at = ((i % (2 * n)) + 2 * n) % (2 * n);
            return at < n ? at : 2 * n - 1 - at;
        }
        case cudaAddressModeBorder: return i < 0 || i >= n ? -1 : i;
        default: return std::clamp<int64_t>(i, 0, n - 1);
    }
}

// The texels of one axis that a fetch reads, and the weight of the second in 1/256.
struct Axis {
    int64_t index[2];
    int weight;
};

Axis axis(const Object &o, float x, int n, int which, bool filter) {
    auto mode = o.desc.addressMode[which];
    if (!o.desc.normalizedCoords && (mode == cudaAddressModeWrap || mode == cudaAddressModeMirror))
        mode = cudaAddressModeClamp;
    double at = double(x);
    bool repeats = mode == cudaAddressModeWrap || mode == cudaAddressModeMirror;
    if (std::isnan(at) || (repeats && std::isinf(at))) at = 0;
    if (repeats) at -= 2 * std::floor(at / 2);  // exact, and both repeat after 2
    // Normalized coordinates have 21 fraction bits.
    if (o.desc.normalizedCoords) at = std::floor(at * 0x1p21) * 0x1p-21 * n;
    at = std::clamp(at, -1e15, 1e15);
    if (!filter) {
        int64_t i = int64_t(std::floor(at));
        return {{address(i, n, mode), 0}, 0};
    }
    int64_t fixed = int64_t(std::floor(at * (1 << FRACTION) + 0.5)) - (1 << (FRACTION - 1));
    int64_t i = fixed >> FRACTION;
    // At an edge that is clamped to, one texel has all the weight.
    if (mode == cudaAddressModeClamp && (i < 0 || i >= n - 1)) {
        int64_t edge = i < 0 ? 0 : n - 1;
        return {{edge, edge}, 0};
    }
    return {{address(i, n, mode), address(i + 1, n, mode)}, int(fixed & ((1 << FRACTION) - 1))};
}

// ---- one level ----------------------------------------------------------------------------------

struct Spot {
    float x[3];
    int slice;  // of an array or a cube map; -1 for a volume
};

int dimensions(Geometry g) {
    static const int counts[] = {1, 2, 3, 1, 2, 2, 2};
    return counts[int(g)];
}

// The share of a weight that goes to the second texel of an axis, rounded to 1/256; `half` is 127
// where a half is rounded down.
int share(int whole, int weight, int half = 128) { return (whole * weight + half) >> FRACTION; }

// Texels and their weights, which are multiples of 1/256.
struct Mix {
    Texel texels[16];
    int weights[16], quads[16], count = 0, quad = 0;  // texels of one quad are summed together
    void add(const Texel &texel, int weight) {
        texels[count] = texel, quads[count] = quad, weights[count++] = weight;
    }
};

// Adds the texels of one level, whose weights sum up to `whole`.
void sample(const Object &o, const Level &level, int dims, const Spot &spot, bool filter, int whole,
            Mix *mix) {
    const int sizes[] = {level.width, level.height, level.depth};
    Axis axes[3] = {{{0, 0}, 0}, {{0, 0}, 0}, {{0, 0}, 0}};
    for (int i = 0; i < dims; i++) axes[i] = axis(o, spot.x[i], sizes[i], i, filter);
    // An array of one dimension has a second one, whose coordinate is 0: the border shows there.
    if (dims == 1 && !o.layered) axes[1] = axis(o, 0, 1, 1, filter);
    if (spot.slice >= 0) axes[2] = {{spot.slice, spot.slice}, 0};
    auto texel = [&](int corner) {
        int64_t x = axes[0].index[corner & 1], y = axes[1].index[corner >> 1 & 1],
                z = axes[2].index[corner >> 2];
        return read(o, level, {int(x), int(y), int(z), x < 0 || y < 0 || z < 0});
    };
    if (!filter) {
        mix->add(texel(0), whole);
        mix->quad++;
        return;
    }
    // The hardware rounds each product of weights, so that all of them sum up to the whole: first
    // along z, then along x and y.
    int far = share(whole, axes[2].weight), slices[] = {whole - far, far};
    for (int z = 0; z < 2; z++) {
        int all = slices[z], x = share(all, axes[0].weight), both = share(x, axes[1].weight);
        int y = share(all - x, axes[1].weight, 127);
        int weights[] = {all - x - y, x - both, y, both};
        for (int i = 0; i < 4; i++)
            if (weights[i]) mix->add(texel(4 * z + i), weights[i]);
        mix->quad++;
    }
}

// ---- sums ---------------------------------------------------------------------------------------

// Rounds to so many bits, or to a multiple of 2 to the `lowest`; halves away from zero.
double rounded_to(double x, int bits, int lowest) {
    if (!std::isfinite(x) || x == 0) return x;
    int exponent;
    std::frexp(x, &exponent);
    double unit = std::ldexp(1.0, std::max(exponent - bits, lowest));
    return std::trunc(x / unit + (x < 0 ? -0.5 : 0.5)) * unit;
}

// Floats: the hardware aligns texels to the largest one and drops what is far below it.
float sum_floats(const Mix &mix, int channel, bool half) {
    const int bits = half ? 11 : 24, lowest = half ? -24 : -149, kept = bits + 3;
    int largest[8], exponent;
    std::fill(largest, largest + 8, -1000);
    double plain = 0, sum = 0;
    for (int i = 0; i < mix.count; i++) {
        double t = float_of(mix.texels[i].bits[channel]);
        int &most = largest[mix.quads[i]];
        plain += t * mix.weights[i];
        if (t != 0 && std::isfinite(t)) std::frexp(t, &exponent), most = std::max(most, exponent);
    }
    if (std::isnan(plain)) return float_of(half ? 0x7fffe000 : 0x7fffffff);
    if (!std::isfinite(plain)) return float(plain);
    for (int i = 0; i < mix.count; i++) {
        double unit = std::ldexp(1.0, largest[mix.quads[i]] - 1 - kept);
        sum += std::trunc(double(float_of(mix.texels[i].bits[channel])) / unit) * unit *
               mix.weights[i];
    }
    return float(rounded_to(sum / 256, bits, lowest));
}

// Normalized integers: sums of 16 bits.
float sum_integers(const Mix &mix, int channel, int bits, bool is_signed) {
    double sum = 0, most = (1 << (bits - is_signed)) - 1, result = is_signed ? 32767 : 65535;
    for (int i = 0; i < mix.count; i++)
        sum += std::rint(double(float_of(mix.texels[i].bits[channel])) * most) * mix.weights[i];
    return float(std::floor(sum * result / (most * 256) + 0.5) / result);
}

Texel sum_of(const Object &o, const Mix &mix, bool filter) {
    if (mix.count == 1 && !filter) return mix.texels[0];
    Texel out;
    for (int i = 0; i < 4; i++) {
        float sum;
        bool colours = o.desc.sRGB && i < 3;
        if (o.format.kind == cudaChannelFormatKindFloat || colours)
            sum = sum_floats(mix, i, o.format.bits < 32);
        else
            sum = sum_integers(mix, i, o.format.bits,
                               o.format.kind == cudaChannelFormatKindSigned);
        out.bits[i] = bits_of(sum);
    }
    return out;
}

Texel gather(const Object &o, const Level &level, const Spot &spot, int which) {
    Axis x = axis(o, spot.x[0], level.width, 0, true);
    Axis y = axis(o, spot.x[1], level.height, 1, true);
    static const int corners[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
    Texel out;
    for (int i = 0; i < 4; i++) {
        int64_t u = x.index[corners[i][0]], v = y.index[corners[i][1]];
        out.bits[i] = read(o, level, {int(u), int(v), std::max(spot.slice, 0), u < 0 || v < 0})
                          .bits[which];
    }
    return out;
}

// ---- levels of detail and cube maps -------------------------------------------------------------

// The face that a direction points at, and the place on it.
Spot on_face(const float *v, int layer) {
    float ax = std::fabs(v[0]), ay = std::fabs(v[1]), az = std::fabs(v[2]), s, t, m;
    int face;
    if (az >= ax && az >= ay)
        face = v[2] < 0 ? 5 : 4, m = az, s = v[2] < 0 ? -v[0] : v[0], t = -v[1];
    else if (ay >= ax)
        face = v[1] < 0 ? 3 : 2, m = ay, s = v[0], t = v[1] < 0 ? -v[2] : v[2];
    else
        face = v[0] < 0 ? 1 : 0, m = ax, s = v[0] < 0 ? v[2] : -v[2], t = -v[1];
    return {{(s / m + 1) / 2, (t / m + 1) / 2, 0}, 6 * layer + face};
}

float detail(const Object &o, const Request &request, const Coordinates &at, int dims) {
    if (Function(request.function) == Function::level) return at.lod;
    if (Function(request.function) != Function::gradient) return 0;
    auto &level = o.levels[0];
    const int sizes[] = {level.width, level.height, level.depth};
    double dx = 0, dy = 0;
    for (int i = 0; i < dims; i++) {
        dx += double(at.dx[i]) * sizes[i] * at.dx[i] * sizes[i];
        dy += double(at.dy[i]) * sizes[i] * at.dy[i] * sizes[i];
    }
    return float(std::log2(std::max(dx, dy)) / 2);
}

}  // namespace

Texel fetch(const Object &o, const Request &request, const Coordinates &at) {
    auto &first = o.levels[0];
    if (o.resource.resType == cudaResourceTypeLinear) {
        int64_t i = at.integer[0];
        bool inside = i >= 0 && i < first.width;
        return inside ? read(o, first, {int(i), 0, 0, false}) : Texel{{0, 0, 0, 0}};
    }
    int dims = dimensions(request.shape());
    bool cube = request.shape() == Geometry::cube || request.shape() == Geometry::acube;
    int layers = o.layered ? first.depth / (cube ? 6 : 1) : 1;
    int layer = int(std::min(unsigned(at.layer), unsigned(layers - 1)));  // -1 is the last one
    Spot spot = {{at.x[0], at.x[1], at.x[2]}, o.layered ? layer : dims == 3 ? -1 : 0};
    if (cube) spot = on_face(at.x, layer);
    auto function = Function(request.function);
    if (function >= Function::gather_r)
        return gather(o, first, spot, int(function) - int(Function::gather_r));
    bool filter = o.desc.filterMode == cudaFilterModeLinear && o.real();
    // In 1/256; a number that is none is level 0.
    auto fixed_of = [](float x) {
        return std::isnan(x) ? 0 : int(std::clamp(x, -64.0f, 64.0f) * 256);
    };
    int lod = fixed_of(detail(o, request, at, dims)) + fixed_of(o.desc.mipmapLevelBias);
    int last = int(o.levels.size()) - 1;
    lod = std::min(std::max(lod, fixed_of(o.desc.minMipmapLevelClamp)),
                   fixed_of(o.desc.maxMipmapLevelClamp));
    lod = std::clamp(lod, 0, 256 * last);
    Mix mix;
    if (o.desc.mipmapFilterMode == cudaFilterModePoint) {
        sample(o, o.levels[(lod + 128) >> 8], dims, spot, filter, 256, &mix);
    } else {
        int below = lod >> 8, weight = lod & 255;
        sample(o, o.levels[below], dims, spot, filter, 256 - weight, &mix);
        if (weight) sample(o, o.levels[below + 1], dims, spot, filter, weight, &mix);
    }
    return sum_of(o, mix, filter);
}

}  // namespace weft
