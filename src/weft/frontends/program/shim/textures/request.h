// The request of a warp to the texture unit. The numbers are places in the tables of
// `device/sim/memory/textures.py`.
#pragma once

#include "arrays.h"

#include <atomic>

namespace weft {

enum class Operation { fetch, ask, load, store, reduce };
enum class Geometry { d1, d2, d3, a1d, a2d, cube, acube };
enum class Type { f32, s32, u32, b8, b16, b32, b64, s64, u64 };
enum class Function { plain, level, gradient, gather_r, gather_g, gather_b, gather_a };
enum class Outside { trap, clamp, zero };
enum class Query { width, height, depth, array_size, levels, normalized };
enum class Reduction { add, min, max, bit_and, bit_or };

struct Request {
    int32_t operation, geometry, type;
    int32_t function;  // of a fetch; of a query; elements of an access; the reduction
    int32_t more;      // coordinates are floats; what happens outside a surface
    int32_t unused[3];
    Geometry shape() const { return Geometry(geometry); }
    bool layered() const {
        return shape() == Geometry::a1d || shape() == Geometry::a2d || shape() == Geometry::acube;
    }
};

// One lane's coordinates: the layer, the place, the level or the gradients.
struct Coordinates {
    int layer = 0;
    float x[3] = {0, 0, 0};
    int integer[3] = {0, 0, 0};
    float lod = 0, dx[3] = {0, 0, 0}, dy[3] = {0, 0, 0};
};

// A texture or a surface object.
struct Object {
    bool surface = false, layered = false, cubemap = false;
    cudaResourceDesc resource{};
    cudaTextureDesc desc{};
    cudaResourceViewDesc view{};
    Format format{};
    std::vector<Level> levels;
    mutable std::atomic<uint64_t> checked{0};  // the generation of memory in which it was alive
    // True if texels are read as floats: they are, or integers are normalized.
    bool real() const {
        return format.kind == cudaChannelFormatKindFloat ||
               desc.readMode == cudaReadModeNormalizedFloat;
    }
};

// Four channels, as the bits that the instruction returns.
struct Texel {
    uint32_t bits[4];
};

int access_bytes(const Request &request);  // of a surface, by one lane
Texel fetch(const Object &texture, const Request &request, const Coordinates &at);
// Reads or writes elements of a surface; false where it is misaligned or `.trap` ends the launch.
bool access(const Object &surface, const Request &request, const Coordinates &at, int64_t *values,
            int stride);

}  // namespace weft
