// Fetches from textures of every kind at random places and writes the bits of the results.
//
//     probe SEED FETCHES FILE [deep]
//
// A case is one texture object. Texels and coordinates are exact functions of the seed, so two
// machines that print the same bytes have fetched the same. `deep` adds long sweeps, from which
// the arithmetic of the hardware can be read.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../check.h"

enum Geometry { d1, d2, d3, a1d, a2d, cube, acube, linear, pitched };
enum Function { plain, level, gradient, gather0, gather1, gather2, gather3 };
enum Places { anywhere, inside, sweep, edges, special, tiny, far_away, one_way };
enum Texels { numbers, bits, count_up, levels, steps };
constexpr int INPUTS = 12;  // x y z layer lod, gradients along x and y of three each

struct Format {
    const char *name;
    cudaChannelFormatKind kind;
    int width, channels;
};
const Format F1{"f32x1", cudaChannelFormatKindFloat, 32, 1},
    F2{"f32x2", cudaChannelFormatKindFloat, 32, 2}, F4{"f32x4", cudaChannelFormatKindFloat, 32, 4},
    H1{"f16x1", cudaChannelFormatKindFloat, 16, 1}, H2{"f16x2", cudaChannelFormatKindFloat, 16, 2},
    H4{"f16x4", cudaChannelFormatKindFloat, 16, 4}, U81{"u8x1", cudaChannelFormatKindUnsigned, 8, 1},
    U82{"u8x2", cudaChannelFormatKindUnsigned, 8, 2},
    U84{"u8x4", cudaChannelFormatKindUnsigned, 8, 4},
    S81{"s8x1", cudaChannelFormatKindSigned, 8, 1}, S84{"s8x4", cudaChannelFormatKindSigned, 8, 4},
    U161{"u16x1", cudaChannelFormatKindUnsigned, 16, 1},
    U164{"u16x4", cudaChannelFormatKindUnsigned, 16, 4},
    S161{"s16x1", cudaChannelFormatKindSigned, 16, 1},
    S162{"s16x2", cudaChannelFormatKindSigned, 16, 2},
    S321{"s32x1", cudaChannelFormatKindSigned, 32, 1},
    S322{"s32x2", cudaChannelFormatKindSigned, 32, 2},
    U324{"u32x4", cudaChannelFormatKindUnsigned, 32, 4};

struct Case {
    Geometry geometry;
    Format format = F4;
    Function function = plain;
    Places places = anywhere;
    Texels texels = numbers;
    cudaTextureFilterMode filter = cudaFilterModePoint;
    cudaTextureAddressMode address = cudaAddressModeClamp;
    bool normalized = false, as_float = false, srgb = false, mip_linear = false, seamless = false;
    int levels = 1, power = 0, anisotropy = 0, count = 0;
    float bias = 0, low = 0, high = 100;
};

// ---- random numbers -----------------------------------------------------------------------------

struct Random {
    uint64_t state;
    uint32_t next() {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        uint32_t x = uint32_t(state >> 33);
        return (x ^ x >> 15) * 2654435769u;
    }
    int below(int n) { return int(next() % uint32_t(n)); }
};
float scaled(int64_t k, int shift) {  // one rounding at most: the same on every host
    float x = float(k);
    uint32_t power = uint32_t(127 - shift) << 23;
    float factor;
    memcpy(&factor, &power, 4);
    return x * factor;
}
uint32_t half_bits(Random &r, bool any) {
    uint32_t b = r.next() & 0xffff;
    return any ? b : (b & 0x83ff) | uint32_t(12 + r.below(7)) << 10;
}
uint32_t float_bits(Random &r, bool any) {
    uint32_t b = r.next() ^ r.next() << 7;
    return any ? b : (b & 0x807fffff) | uint32_t(124 + r.below(6)) << 23;
}

// ---- one texture --------------------------------------------------------------------------------

struct Extent {
    int w, h, d;
};
Extent extent_of(const Case &c) {
    static const Extent odd[] = {{37, 0, 0}, {13, 9, 0}, {7, 6, 5}, {37, 0, 3}, {13, 9, 3},
                                 {7, 7, 6},  {7, 7, 12}, {37, 0, 0}, {13, 9, 0}};
    static const Extent two[] = {{64, 0, 0}, {16, 8, 0}, {8, 8, 4}, {64, 0, 3}, {16, 8, 3},
                                 {8, 8, 6},  {8, 8, 12}, {64, 0, 0}, {32, 8, 0}};
    if (c.power == 2) return {1000, c.geometry == d1 ? 0 : 3, 0};
    return (c.power ? two : odd)[c.geometry];
}
bool layered(Geometry g) { return g == a1d || g == a2d || g == cube || g == acube; }

std::vector<uint8_t> texels_of(const Case &c, Random &r, size_t count, int lod) {
    int bytes = c.format.width / 8, all = bytes * c.format.channels;
    std::vector<uint8_t> out(count * all);
    for (size_t i = 0; i < count * c.format.channels; i++) {
        uint32_t v;
        bool real = c.format.kind == cudaChannelFormatKindFloat;
        size_t texel = i / c.format.channels, channel = i % c.format.channels;
        if (c.texels == count_up || c.texels == levels || c.texels == steps) {
            float x = c.texels == count_up ? float(texel)
                      : c.texels == steps ? float(texel % 2)
                                          : float(lod);
            if (channel == 1) x = x * x;
            memcpy(&v, &x, 4);
            if (!real) v = c.texels == steps ? (texel % 2 ? 0xffffffffu : 0) : uint32_t(texel);
        } else if (real) {
            v = c.format.width == 32 ? float_bits(r, c.texels == bits)
                                     : half_bits(r, c.texels == bits);
        } else {
            v = r.next();
        }
        memcpy(&out[i * bytes], &v, bytes);
    }
    return out;
}

void coordinates(const Case &c, Random &r, int n, std::vector<float> &in) {
    Extent e = extent_of(c);
    int size[3] = {e.w, e.h ? e.h : 1, e.d ? e.d : 1};
    static const uint32_t odd[] = {0x7fc00000, 0xffc00000, 0x7f800000, 0xff800000, 0x80000000,
                                   0,          0x00000001, 0x4b000000, 0x4b800000, 0xcb000000,
                                   0x4f000000, 0xcf000000, 0x5f000000, 0x7f7fffff, 0xff7fffff,
                                   0x3f800000, 0xbf800000, 0x3f000000, 0x46000100, 0xc6000100};
    for (int i = 0; i < n; i++) {
        float *v = &in[size_t(i) * INPUTS];
        bool round = c.geometry == cube || c.geometry == acube;
        for (int k = 0; k < 3; k++) {
            int bound = c.normalized && !round ? 1 : size[k];
            if (round) {
                v[k] = scaled(int64_t(r.next()) - (1ll << 31), 31);
            } else if (c.places == anywhere) {
                v[k] = scaled((int64_t(r.next()) * 4 - (3ll << 31)) * bound, 32);
            } else if (c.places == far_away) {
                int shift = 10 + r.below(22);
                v[k] = scaled(int64_t(r.next()) - (1ll << 31), shift);
            } else if (c.places == inside || c.places == one_way) {
                v[k] = scaled(int64_t(r.next()) * bound, 32);
            } else if (c.places == tiny) {
                int shift = 31 + r.below(24);
                v[k] = scaled(int64_t(r.next()) - (1ll << 31), shift);
            } else if (c.places == sweep) {
                v[k] = k ? scaled(int64_t(r.next()) * bound, 32) : scaled(i, c.normalized ? 16 : 11);
            } else if (c.places == edges) {
                float at = scaled(r.below(2 * size[k] + 1), 1);
                uint32_t b;
                if (c.normalized) at = scaled(r.below(2 * size[k] + 1), 4);
                memcpy(&b, &at, 4);
                int bits = r.below(20);
                uint32_t steps = r.below(1 << bits);
                b += r.below(2) ? steps : -steps;
                memcpy(&v[k], &b, 4);
            } else {
                memcpy(&v[k], &odd[r.below(20)], 4);
            }
        }
        v[3] = float(r.below(6) - 1);
        v[4] = scaled(int64_t(r.next()) * (c.levels + 2) - (1ll << 32), 32);
        if (c.places == sweep && c.levels > 1) v[4] = scaled(i - 512, 10);
        for (int k = 0; k < 6; k++) {
            int shift = 30 + r.below(7);
            v[5 + k] = scaled(int64_t(r.next()) - (1ll << 31), shift);
        }
        if (c.places == one_way) v[8] = v[9] = v[10] = 0;
        if (c.places == sweep)  // gradients along one axis
            for (int k = 0; k < 6; k++) v[5 + k] = k ? 0 : scaled(i + 1, 11);
        v[11] = 0;
    }
}

cudaTextureDesc description(const Case &c) {
    cudaTextureDesc t{};
    t.addressMode[0] = t.addressMode[1] = t.addressMode[2] = c.address;
    t.filterMode = c.filter;
    t.readMode = c.as_float ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
    t.sRGB = c.srgb;
    for (int k = 0; k < 4; k++) t.borderColor[k] = scaled(3 + k, 2);
    t.normalizedCoords = c.normalized;
    t.maxAnisotropy = c.anisotropy;
    t.mipmapFilterMode = c.mip_linear ? cudaFilterModeLinear : cudaFilterModePoint;
    t.mipmapLevelBias = c.bias;
    t.minMipmapLevelClamp = c.low;
    t.maxMipmapLevelClamp = c.high;
    t.seamlessCubemap = c.seamless;
    return t;
}

void fill(cudaArray_t array, const Case &c, Random &r, int lod) {
    cudaChannelFormatDesc desc;
    cudaExtent e;
    unsigned flags;
    CALL(cudaArrayGetInfo(&desc, &e, &flags, array));
    size_t h = e.height ? e.height : 1, d = e.depth ? e.depth : 1;
    size_t texel = c.format.width / 8 * c.format.channels;
    auto data = texels_of(c, r, e.width * h * d, lod);
    cudaMemcpy3DParms p{};
    p.srcPtr = make_cudaPitchedPtr(data.data(), e.width * texel, e.width, h);
    p.dstArray = array;
    p.extent = make_cudaExtent(e.width, h, d);
    p.kind = cudaMemcpyHostToDevice;
    CALL(cudaMemcpy3D(&p));
}

struct Texture {
    cudaTextureObject_t object = 0;
    cudaArray_t array = nullptr;
    cudaMipmappedArray_t mipmap = nullptr;
    void *memory = nullptr;
    cudaError_t error;  // a texture that cannot be made: the results are its error

    Texture(const Case &c, Random &r) {
        Extent e = extent_of(c);
        int w = c.format.width, n = c.format.channels;
        cudaChannelFormatDesc desc = cudaCreateChannelDesc(w, n > 1 ? w : 0, n > 2 ? w : 0,
                                                           n > 3 ? w : 0, c.format.kind);
        unsigned flags = 0;
        if (layered(c.geometry) && c.geometry != cube) flags |= cudaArrayLayered;
        if (c.geometry == cube || c.geometry == acube) flags |= cudaArrayCubemap;
        if (c.function >= gather0) flags |= cudaArrayTextureGather;
        cudaExtent extent = make_cudaExtent(e.w, e.h, e.d);
        cudaResourceDesc res{};
        size_t texel = size_t(w / 8 * n);
        if (c.geometry == linear) {
            auto data = texels_of(c, r, e.w, 0);
            CALL(cudaMalloc(&memory, data.size()));
            CALL(cudaMemcpy(memory, data.data(), data.size(), cudaMemcpyHostToDevice));
            res.resType = cudaResourceTypeLinear;
            res.res.linear.devPtr = memory, res.res.linear.desc = desc;
            res.res.linear.sizeInBytes = data.size();
        } else if (c.geometry == pitched) {
            auto data = texels_of(c, r, size_t(e.w) * e.h, 0);
            size_t pitch;
            CALL(cudaMallocPitch(&memory, &pitch, e.w * texel, e.h));
            CALL(cudaMemcpy2D(memory, pitch, data.data(), e.w * texel, e.w * texel, e.h,
                               cudaMemcpyHostToDevice));
            res.resType = cudaResourceTypePitch2D;
            res.res.pitch2D = {memory, desc, size_t(e.w), size_t(e.h), pitch};
        } else if (c.levels > 1) {
            CALL(cudaMallocMipmappedArray(&mipmap, &desc, extent, c.levels, flags));
            for (int i = 0; i < c.levels; i++) {
                cudaArray_t one;
                CALL(cudaGetMipmappedArrayLevel(&one, mipmap, i));
                fill(one, c, r, i);
            }
            res.resType = cudaResourceTypeMipmappedArray;
            res.res.mipmap.mipmap = mipmap;
        } else {
            CALL(cudaMalloc3DArray(&array, &desc, extent, flags));
            fill(array, c, r, 0);
            res.resType = cudaResourceTypeArray;
            res.res.array.array = array;
        }
        cudaTextureDesc t = description(c);
        error = cudaCreateTextureObject(&object, &res, &t, nullptr);
    }
    ~Texture() {
        if (!error) CALL(cudaDestroyTextureObject(object));
        if (array) CALL(cudaFreeArray(array));
        if (mipmap) CALL(cudaFreeMipmappedArray(mipmap));
        if (memory) CALL(cudaFree(memory));
    }
};

// ---- the fetch ----------------------------------------------------------------------------------

template <class V>
__device__ V fetch(cudaTextureObject_t t, int geometry, int function, const float *v) {
    float x = v[0], y = v[1], z = v[2], lod = v[4];
    int layer = int(v[3]);
    float2 px = {v[5], v[6]}, py = {v[8], v[9]};
    float4 qx = {v[5], v[6], v[7], 0}, qy = {v[8], v[9], v[10], 0};
    switch (geometry * 8 + (function < 3 ? function : 3)) {
        case d1 * 8: return tex1D<V>(t, x);
        case d2 * 8: return tex2D<V>(t, x, y);
        case d3 * 8: return tex3D<V>(t, x, y, z);
        case a1d * 8: return tex1DLayered<V>(t, x, layer);
        case a2d * 8: return tex2DLayered<V>(t, x, y, layer);
        case cube * 8: return texCubemap<V>(t, x, y, z);
        case acube * 8: return texCubemapLayered<V>(t, x, y, z, layer);
        case linear * 8: return tex1Dfetch<V>(t, int(x));
        case pitched * 8: return tex2D<V>(t, x, y);
        case d1 * 8 + 1: return tex1DLod<V>(t, x, lod);
        case d2 * 8 + 1: return tex2DLod<V>(t, x, y, lod);
        case d3 * 8 + 1: return tex3DLod<V>(t, x, y, z, lod);
        case a1d * 8 + 1: return tex1DLayeredLod<V>(t, x, layer, lod);
        case a2d * 8 + 1: return tex2DLayeredLod<V>(t, x, y, layer, lod);
        case cube * 8 + 1: return texCubemapLod<V>(t, x, y, z, lod);
        case acube * 8 + 1: return texCubemapLayeredLod<V>(t, x, y, z, layer, lod);
        case d1 * 8 + 2: return tex1DGrad<V>(t, x, px.x, py.x);
        case d2 * 8 + 2: return tex2DGrad<V>(t, x, y, px, py);
        case d3 * 8 + 2: return tex3DGrad<V>(t, x, y, z, qx, qy);
        case a1d * 8 + 2: return tex1DLayeredGrad<V>(t, x, layer, px.x, py.x);
        case a2d * 8 + 2: return tex2DLayeredGrad<V>(t, x, y, layer, px, py);
        case cube * 8 + 2: return texCubemapGrad<V>(t, x, y, z, qx, qy);
        case d2 * 8 + 3:
            return function == gather0   ? tex2Dgather<V>(t, x, y, 0)
                   : function == gather1 ? tex2Dgather<V>(t, x, y, 1)
                   : function == gather2 ? tex2Dgather<V>(t, x, y, 2)
                                         : tex2Dgather<V>(t, x, y, 3);
    }
    return V{};
}

template <class V>
__global__ void fetch_all(cudaTextureObject_t t, int geometry, int function, const float *in, int n,
                          V *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fetch<V>(t, geometry, function, in + size_t(i) * INPUTS);
}

std::vector<uint4> results(const Case &c, uint64_t seed, int n) {
    Random r{seed};
    Texture texture(c, r);
    std::vector<float> in(size_t(n) * INPUTS);
    coordinates(c, r, n, in);
    float *device_in;
    uint4 *device_out;
    std::vector<uint4> out(n);
    CALL(cudaMalloc(&device_in, in.size() * 4));
    CALL(cudaMalloc(&device_out, n * sizeof(uint4)));
    CALL(cudaMemcpy(device_in, in.data(), in.size() * 4, cudaMemcpyHostToDevice));
    int blocks = (n + 63) / 64;
    bool real = c.format.kind == cudaChannelFormatKindFloat || c.as_float;
    if (texture.error)
        cudaGetLastError();
    else if (real)
        fetch_all<<<blocks, 64>>>(texture.object, c.geometry, c.function, device_in, n,
                                  reinterpret_cast<float4 *>(device_out));
    else if (c.format.kind == cudaChannelFormatKindSigned)
        fetch_all<<<blocks, 64>>>(texture.object, c.geometry, c.function, device_in, n,
                                  reinterpret_cast<int4 *>(device_out));
    else
        fetch_all<<<blocks, 64>>>(texture.object, c.geometry, c.function, device_in, n, device_out);
    CALL(cudaGetLastError());
    CALL(cudaMemcpy(out.data(), device_out, n * sizeof(uint4), cudaMemcpyDeviceToHost));
    CALL(cudaFree(device_in));
    CALL(cudaFree(device_out));
    if (texture.error) out.assign(n, uint4{0xeeeeeeee, unsigned(texture.error), 0, 0});
    return out;
}

// ---- the cases ----------------------------------------------------------------------------------

const cudaTextureFilterMode filters[] = {cudaFilterModePoint, cudaFilterModeLinear};
const cudaTextureAddressMode modes[] = {cudaAddressModeWrap, cudaAddressModeClamp,
                                        cudaAddressModeMirror, cudaAddressModeBorder};

std::vector<Case> cases() {
    std::vector<Case> out;
    Case c;
    for (int g = d1; g <= acube; g++)  // every geometry, filter and address mode
        for (auto filter : filters)
            for (auto mode : modes)
                for (int normalized = g >= cube; normalized < 2; normalized++) {
                    c = Case{Geometry(g)};
                    c.filter = filter, c.address = mode, c.normalized = normalized;
                    c.power = mode == cudaAddressModeMirror;
                    out.push_back(c);
                }
    for (auto &format : {F1, F2, F4, H1, H2, H4, U81, U82, U84, S81, S84, U161, U164, S161, S162})
        for (auto filter : filters) {  // every format, as floats
            c = Case{d2, format};
            c.filter = filter, c.normalized = filter == cudaFilterModeLinear;
            c.as_float = format.kind != cudaChannelFormatKindFloat;
            c.texels = format.width == 8 || filter == cudaFilterModePoint ? bits : numbers;
            out.push_back(c);
        }
    for (auto &format : {F1, H4, U81, U84, S84, U164, S162})  // borders of each
        for (auto filter : filters) {
            c = Case{d2, format};
            c.filter = filter, c.as_float = format.kind != cudaChannelFormatKindFloat;
            c.address = cudaAddressModeBorder;
            out.push_back(c);
        }
    for (auto &format : {U81, S84, U164, S162, S321, S322, U324})  // and as integers
        for (auto mode : {cudaAddressModeClamp, cudaAddressModeBorder}) {
            c = Case{d2, format};
            c.address = mode;
            out.push_back(c);
        }
    for (int g = d1; g <= acube; g++)  // levels of detail
        for (auto filter : filters)
            for (bool mip_linear : {false, true})
                for (auto function : {plain, level, gradient}) {
                    if (g == acube && function == gradient) continue;
                    c = Case{Geometry(g)};
                    c.function = function, c.filter = filter, c.mip_linear = mip_linear;
                    c.levels = 3, c.power = 1, c.normalized = true;
                    c.address = cudaAddressModeWrap;
                    out.push_back(c);
                }
    for (int i = 0; i < 8; i++) {  // bias and clamps of the level
        c = Case{d2};
        c.function = i % 2 ? gradient : level, c.filter = cudaFilterModeLinear;
        c.mip_linear = i & 2, c.levels = 4, c.power = i & 1, c.normalized = true;
        if (i & 4) c.bias = 0.6875f;
        c.low = 0.25f, c.high = 1.75f;
        out.push_back(c);
    }
    for (int k = 0; k < 4; k++)  // gathers
        for (int normalized = 0; normalized < 2; normalized++)
            for (auto mode : modes) {
                c = Case{d2, k == 2 ? U84 : F4};
                c.function = Function(gather0 + k), c.address = mode, c.normalized = normalized;
                out.push_back(c);
            }
    for (auto &format : {F1, F4, U84, S321, U324}) out.push_back({linear, format});
    for (auto filter : filters)  // pitch-linear memory
        for (auto mode : modes)
            for (int normalized = 0; normalized < 2; normalized++) {
                c = Case{pitched, F1};
                c.filter = filter, c.address = mode, c.normalized = normalized;
                out.push_back(c);
            }
    for (auto filter : filters) {  // sRGB, and cube maps whose faces are filtered together
        c = Case{d2, U84};
        c.filter = filter, c.as_float = c.srgb = true, c.texels = bits;
        out.push_back(c);
        c = Case{cube};
        c.filter = filter, c.normalized = c.seamless = true;
        out.push_back(c);
    }
    for (int g = d1; g <= d3; g++)  // coordinates that are not numbers, or far away
        for (auto mode : modes)
            for (int normalized = 0; normalized < 2; normalized++) {
                c = Case{Geometry(g), F1};
                c.places = special, c.texels = count_up, c.address = mode, c.normalized = normalized;
                c.filter = g == d2 ? cudaFilterModeLinear : cudaFilterModePoint;
                out.push_back(c);
            }
    return out;
}

// Long sweeps for one question each.
std::vector<Case> sweeps() {
    std::vector<Case> out;
    Case c;
    for (int power = 0; power < 3; power++)  // the weights and the rounding of coordinates
        for (int normalized = 0; normalized < 2; normalized++)
            for (auto places : {sweep, edges, inside, tiny, far_away})
                for (auto filter : filters) {
                    c = Case{d1, F1};
                    c.texels = count_up, c.filter = filter, c.normalized = normalized;
                    c.power = power, c.places = places, c.count = 4096;
                    c.address = places >= tiny ? cudaAddressModeWrap : cudaAddressModeClamp;
                    out.push_back(c);
                }
    for (int g = d1; g <= d3; g++)  // the arithmetic of interpolation
        for (auto &format : {F1, H1, U81, S81, U161, S161}) {
            c = Case{Geometry(g), format};
            c.filter = cudaFilterModeLinear, c.places = inside, c.count = 8192;
            c.as_float = format.kind != cudaChannelFormatKindFloat;
            out.push_back(c);
            c.texels = steps, c.count = 4096;
            out.push_back(c);
        }
    for (auto &format : {F1, H1}) {  // numbers far apart, infinities, NaNs
        c = Case{d1, format};
        c.filter = cudaFilterModeLinear, c.texels = bits, c.places = inside, c.count = 4096;
        c.power = 2;
        out.push_back(c);
    }
    for (auto function : {level, gradient})  // the level of detail
        for (auto places : {sweep, inside, one_way})
            for (int g : {int(d1), int(d2), int(d3), int(cube)})
                for (bool mip_linear : {false, true})
                    for (int power = 0; power < 2; power++) {
                        c = Case{Geometry(g), F1};
                        c.function = function, c.texels = levels, c.levels = power ? 4 : 3;
                        if (g == d1 && power) c.levels = 7;
                        if (g == d3) c.levels = 3;
                        c.mip_linear = mip_linear, c.places = places, c.power = power;
                        c.normalized = true, c.count = places == sweep ? 4096 : 8192;
                        out.push_back(c);
                    }
    for (auto &format : {F1, U81}) {  // three and four kinds of weights together
        c = Case{d2, format};
        c.function = level, c.levels = 3, c.filter = cudaFilterModeLinear;
        c.as_float = format.kind != cudaChannelFormatKindFloat;
        c.mip_linear = true, c.normalized = true, c.count = 8192, c.power = 1;
        out.push_back(c);
        c.geometry = d3;
        out.push_back(c);
    }
    for (int power = 0; power < 2; power++)  // cube maps: the face and the place on it
        for (auto filter : filters)
            for (bool seamless : {false, true}) {
                c = Case{cube, F1};
                c.texels = count_up, c.filter = filter, c.count = 8192, c.normalized = true;
                c.power = power, c.seamless = seamless;
                out.push_back(c);
            }
    for (int normalized = 0; normalized < 2; normalized++)  // gathers
        for (auto places : {sweep, edges, inside}) {
            c = Case{d2, F1};
            c.function = gather0, c.texels = count_up, c.count = 4096, c.places = places;
            c.normalized = normalized;
            out.push_back(c);
        }
    for (int anisotropy : {2, 4, 16}) {
        c = Case{d2, F1};
        c.function = gradient, c.levels = 4, c.power = 1, c.normalized = true, c.count = 2048;
        c.filter = cudaFilterModeLinear, c.mip_linear = true, c.anisotropy = anisotropy;
        out.push_back(c);
        c.texels = levels;
        out.push_back(c);
    }
    for (int i = 0; i < 4; i++) {  // the precision of the bias and of the clamps
        c = Case{d2, F1};
        c.function = level, c.texels = levels, c.levels = 4, c.power = 1, c.normalized = true;
        c.mip_linear = i < 2, c.places = sweep, c.count = 4096;
        if (i & 1) c.low = 0.4321f, c.high = 2.7777f;
        c.bias = i & 1 ? -0.3337f : 0.3337f;
        out.push_back(c);
    }
    for (auto mode : {cudaAddressModeMirror, cudaAddressModeClamp, cudaAddressModeBorder})
        for (int power = 0; power < 2; power++) {  // far away, by the other address modes
            c = Case{d1, F1};
            c.texels = count_up, c.normalized = true, c.power = power, c.places = far_away;
            c.address = mode, c.count = 4096, c.filter = cudaFilterModeLinear;
            out.push_back(c);
        }
    for (auto &format : {F1, H1}) {
        c = Case{d2, format};
        c.filter = cudaFilterModeLinear, c.texels = bits, c.places = inside, c.count = 4096;
        out.push_back(c);
    }
    c = Case{d1, U81};  // every sRGB code
    c.texels = count_up, c.power = 2, c.as_float = c.srgb = true, c.places = inside, c.count = 4096;
    out.push_back(c);
    c.format = U84;
    out.push_back(c);
    return out;
}

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "probe SEED FETCHES FILE [deep]\n"), 2;
    uint64_t seed = strtoull(argv[1], nullptr, 0);
    int fetches = atoi(argv[2]), number = 0;
    FILE *file = fopen(argv[3], "wb");
    if (!file) return perror(argv[3]), 1;
    auto all = argc > 4 ? sweeps() : cases();
    for (auto &c : all) {
        int n = c.count ? c.count : fetches;
        auto out = results(c, seed * 1000003 + ++number, n);
        for (auto &v : out) fwrite(&v, 4, c.count ? 1 : 4, file);
    }
    printf("seed %llu: %zu textures\n", (unsigned long long)seed, all.size());
    return fclose(file);
}
