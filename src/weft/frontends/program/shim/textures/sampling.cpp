// Texture fetches: addressing, filtering and levels of detail, as the hardware rounds them.
#include "request.h"

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

uint32_t channel(const Object &o, const char *at) {
    uint32_t raw = 0;
    memcpy(&raw, at, o.format.bits / 8);
    bool real = o.format.kind == cudaChannelFormatKindFloat;
    if (real) return o.format.bits == 32 ? raw : bits_of(half_to_float(uint16_t(raw)));
    bool is_signed = o.format.kind == cudaChannelFormatKindSigned;
    int32_t value = is_signed ? int32_t(raw << (32 - o.format.bits)) >> (32 - o.format.bits)
                              : int32_t(raw);
    if (o.desc.readMode != cudaReadModeNormalizedFloat) return uint32_t(value);
    float most = float((1u << (o.format.bits - is_signed)) - 1);
    return bits_of(std::max(float(value) / most, -1.0f));
}

// The place of a texel; a place outside has the border's colour.
struct Place {
    int x, y, z;
    bool outside;
};

Texel read(const Object &o, const Level &level, const Place &at) {
    Texel out = {{0, 0, 0, 0}};
    if (at.outside) {
        for (int i = 0; i < 4; i++) out.bits[i] = bits_of(o.desc.borderColor[i]);
        return out;
    }
    const char *texel =
        level.data + at.z * level.plane + at.y * level.pitch + at.x * o.format.bytes();
    for (int i = 0; i < o.format.channels; i++)
        out.bits[i] = channel(o, texel + i * o.format.bits / 8);
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
    if (std::isnan(at)) at = 0;
    if (o.desc.normalizedCoords) at *= n;
    at = std::clamp(at, -1e15, 1e15);
    if (!filter) {
        int64_t i = int64_t(std::floor(at));
        return {{address(i, n, mode), 0}, 0};
    }
    int64_t fixed = int64_t(std::floor(at * (1 << FRACTION) + 0.5)) - (1 << (FRACTION - 1));
    int64_t i = fixed >> FRACTION;
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

Texel sample(const Object &o, const Level &level, int dims, const Spot &spot, bool filter) {
    const int sizes[] = {level.width, level.height, level.depth};
    Axis axes[3] = {{{0, 0}, 0}, {{0, 0}, 0}, {{0, 0}, 0}};
    for (int i = 0; i < dims; i++) axes[i] = axis(o, spot.x[i], sizes[i], i, filter);
    if (spot.slice >= 0) axes[2] = {{spot.slice, spot.slice}, 0};
    auto texel = [&](int corner) {
        int64_t x = axes[0].index[corner & 1], y = axes[1].index[corner >> 1 & 1],
                z = axes[2].index[corner >> 2];
        return read(o, level, {int(x), int(y), int(z), x < 0 || y < 0 || z < 0});
    };
    if (!filter) return texel(0);
    double sums[4] = {0, 0, 0, 0};
    for (int corner = 0; corner < 1 << dims; corner++) {
        double weight = 1;
        for (int i = 0; i < dims; i++)
            weight *= (corner >> i & 1 ? axes[i].weight : 256 - axes[i].weight) / 256.0;
        if (!weight) continue;
        auto t = texel(corner);
        for (int i = 0; i < 4; i++) sums[i] += weight * double(float_of(t.bits[i]));
    }
    Texel out;
    for (int i = 0; i < 4; i++) out.bits[i] = bits_of(float(sums[i]));
    return out;
}

Texel gather(const Object &o, const Level &level, const Spot &spot, int which) {
    Axis x = axis(o, spot.x[0], level.width, 0, true), y = axis(o, spot.x[1], level.height, 1, true);
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

Texel mixed(const Texel &a, const Texel &b, int weight) {
    Texel out;
    for (int i = 0; i < 4; i++) {
        double sum = (double(float_of(a.bits[i])) * (256 - weight) +
                      double(float_of(b.bits[i])) * weight) / 256;
        out.bits[i] = bits_of(float(sum));
    }
    return out;
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
    int layer = std::clamp(at.layer, 0, layers - 1);
    Spot spot = {{at.x[0], at.x[1], at.x[2]}, o.layered ? layer : dims == 3 ? -1 : 0};
    if (cube) spot = on_face(at.x, layer);
    auto function = Function(request.function);
    if (function >= Function::gather_r)
        return gather(o, first, spot, int(function) - int(Function::gather_r));
    bool filter = o.desc.filterMode == cudaFilterModeLinear && o.real();
    float lod = detail(o, request, at, dims) + o.desc.mipmapLevelBias;
    lod = std::clamp(lod, o.desc.minMipmapLevelClamp, o.desc.maxMipmapLevelClamp);
    int last = int(o.levels.size()) - 1;
    lod = std::clamp(lod, 0.0f, float(last));
    if (o.desc.mipmapFilterMode == cudaFilterModePoint)
        return sample(o, o.levels[std::min(int(lod + 0.5f), last)], dims, spot, filter);
    int fixed = int(std::floor(lod * 256 + 0.5f)), below = std::min(fixed >> 8, last);
    Texel a = sample(o, o.levels[below], dims, spot, filter);
    if (below == last || !(fixed & 255)) return a;
    return mixed(a, sample(o, o.levels[below + 1], dims, spot, filter), fixed & 255);
}

}  // namespace weft
