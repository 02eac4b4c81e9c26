// Arrays and mipmapped arrays: allocation and what they answer.
#include "arrays.h"

#include <algorithm>
#include <set>

namespace weft {
namespace {
std::mutex arrays_mutex;
std::set<const cudaArray *> arrays;
std::set<const cudaMipmappedArray *> mipmaps;
constexpr unsigned ARRAY_FLAGS = cudaArrayLayered | cudaArraySurfaceLoadStore | cudaArrayCubemap |
                                 cudaArrayTextureGather | cudaArrayColorAttachment;

// The texels of an array: a dimension that is not asked for has one of them.
Level shape_of(const cudaExtent &extent, const Format &format) {
    Level level;
    level.width = int(extent.width);
    level.height = int(std::max<size_t>(extent.height, 1));
    level.depth = int(std::max<size_t>(extent.depth, 1));
    level.pitch = level.width * format.bytes();
    level.plane = level.pitch * level.height;
    return level;
}

cudaError_t check_array(const cudaChannelFormatDesc *desc, const cudaExtent &extent, unsigned flags,
                        Format *format) {
    if (!desc || !format_of(*desc, format)) return cudaErrorInvalidChannelDescriptor;
    bool layered = flags & cudaArrayLayered, cube = flags & cudaArrayCubemap;
    size_t most = extent.depth && !layered && !cube ? 16384 : 131072;
    if (flags & ~ARRAY_FLAGS || !extent.width || extent.width > most || extent.height > most ||
        extent.depth > most || (layered && !extent.depth))
        return cudaErrorInvalidValue;
    if (cube && (extent.width != extent.height || extent.depth % 6 || !extent.depth ||
                 (!layered && extent.depth != 6)))
        return cudaErrorInvalidValue;
    if (flags & cudaArrayTextureGather && (!extent.height || (extent.depth && !layered)))
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

// One array after the other in one allocation, which holds zeros: kernels write surfaces unseen by
// the sanitizer, so that no byte may look unwritten.
cudaError_t allocate_levels(const char *call, std::vector<cudaArray *> levels) {
    size_t bytes = 0;
    for (auto *one : levels) bytes += (one->level.plane * one->level.depth + 511) / 512 * 512;
    void *memory;
    if (auto error = allocate(call, &memory, bytes, Kind::device)) return error;
    memset(memory, 0, bytes);
    char *at = static_cast<char *>(memory);
    for (auto *one : levels) {
        one->level.data = at;
        at += (one->level.plane * one->level.depth + 511) / 512 * 512;
    }
    return cudaSuccess;
}
}  // namespace

bool format_of(const cudaChannelFormatDesc &desc, Format *out) {
    int bits[] = {desc.x, desc.y, desc.z, desc.w}, channels = 4;
    while (channels > 0 && !bits[channels - 1]) channels--;
    bool wide = bits[0] == 8 || bits[0] == 16 || bits[0] == 32;
    if (!wide || channels == 3) return false;
    for (int i = 1; i < channels; i++)
        if (bits[i] != bits[0]) return false;
    if (desc.f > cudaChannelFormatKindFloat ||
        (desc.f == cudaChannelFormatKindFloat && bits[0] == 8))
        return false;
    *out = {desc.f, bits[0], channels};
    return true;
}

bool is_array(const cudaArray *array) {
    std::lock_guard<std::mutex> guard(arrays_mutex);
    return arrays.count(array);
}
bool is_mipmap(const cudaMipmappedArray *mipmap) {
    std::lock_guard<std::mutex> guard(arrays_mutex);
    return mipmaps.count(mipmap);
}
static void forget_lost() {
    std::lock_guard<std::mutex> guard(arrays_mutex);
    auto gone = [](const cudaArray *array) {
        uintptr_t start;
        Allocation found;
        return !find(array->level.data, &start, &found);
    };
    std::vector<const cudaMipmappedArray *> lost;
    for (auto *mipmap : mipmaps)
        if (gone(&mipmap->levels[0])) lost.push_back(mipmap);
    for (auto entry = arrays.begin(); entry != arrays.end();) {
        auto *array = *entry;
        bool erased = gone(array);
        entry = erased ? arrays.erase(entry) : std::next(entry);
        if (erased && !array->of_mipmap) delete array;
    }
    for (auto *mipmap : lost) mipmaps.erase(mipmap), delete mipmap;
}
[[maybe_unused]] static const bool forgets = (forget_arrays = forget_lost, true);
Box box_of(const cudaArray *array, size_t x, size_t y, size_t z) {
    auto &level = array->level;
    return {level.data + z * level.plane + y * level.pitch + x, level.pitch, level.plane};
}
}  // namespace weft

using namespace weft;

static cudaError_t make_array(const char *call, cudaArray_t *out, const cudaChannelFormatDesc *desc,
                              cudaExtent extent, unsigned flags) {
    WORKING;
    Format format;
    if (!out) return failed(cudaErrorInvalidValue);
    if (auto error = check_array(desc, extent, flags, &format)) return failed(error);
    auto array = std::make_unique<cudaArray>(
        cudaArray{*desc, format, extent, flags, shape_of(extent, format), false});
    if (auto error = allocate_levels(call, {array.get()})) return failed(error);
    std::lock_guard<std::mutex> guard(arrays_mutex);
    arrays.insert(*out = array.release());
    return cudaSuccess;
}
API cudaError_t cudaMallocArray(cudaArray_t *out, const cudaChannelFormatDesc *desc, size_t width,
                                size_t height, unsigned flags) {
    return make_array("cudaMallocArray", out, desc, {width, height, 0}, flags);
}
API cudaError_t cudaMalloc3DArray(cudaArray_t *out, const cudaChannelFormatDesc *desc,
                                  cudaExtent extent, unsigned flags) {
    return make_array("cudaMalloc3DArray", out, desc, extent, flags);
}
API cudaError_t cudaFreeArray(cudaArray_t array) {
    WORKING;
    if (!array) return cudaSuccess;
    if (!is_array(array)) return failed(cudaErrorInvalidResourceHandle);
    if (array->of_mipmap) return cudaSuccess;  // its memory goes with the mipmapped array
    if (auto error = release("cudaFreeArray", array->level.data, false)) return failed(error);
    std::lock_guard<std::mutex> guard(arrays_mutex);
    arrays.erase(array);
    delete array;
    return cudaSuccess;
}

API cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *out,
                                         const cudaChannelFormatDesc *desc, cudaExtent extent,
                                         unsigned levels, unsigned flags) {
    WORKING;
    Format format;
    if (!out || !levels) return failed(cudaErrorInvalidValue);
    if (auto error = check_array(desc, extent, flags, &format)) return failed(error);
    bool layered = flags & (cudaArrayLayered | cudaArrayCubemap);
    size_t longest = std::max({extent.width, extent.height, layered ? 0 : extent.depth});
    auto mipmap = std::make_unique<cudaMipmappedArray>();
    // Levels beyond that of 1 x 1 x 1 are left out.
    for (unsigned i = 0; i < levels && longest >> i; i++) {
        auto half = [i](size_t n) { return n ? std::max<size_t>(n >> i, 1) : 0; };
        cudaExtent size = {half(extent.width), half(extent.height),
                           layered ? extent.depth : half(extent.depth)};
        mipmap->levels.push_back({*desc, format, size, flags, shape_of(size, format), true});
    }
    std::vector<cudaArray *> all;
    for (auto &one : mipmap->levels) all.push_back(&one);
    if (auto error = allocate_levels("cudaMallocMipmappedArray", all)) return failed(error);
    std::lock_guard<std::mutex> guard(arrays_mutex);
    arrays.insert(all.begin(), all.end());
    mipmaps.insert(*out = mipmap.release());
    return cudaSuccess;
}
API cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *out, cudaMipmappedArray_const_t mipmap,
                                           unsigned level) {
    WORKING;
    if (!is_mipmap(mipmap)) return failed(cudaErrorInvalidResourceHandle);
    if (!out || level >= mipmap->levels.size()) return failed(cudaErrorInvalidValue);
    *out = const_cast<cudaArray_t>(&mipmap->levels[level]);
    return cudaSuccess;
}
API cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmap) {
    WORKING;
    if (!mipmap) return cudaSuccess;
    if (!is_mipmap(mipmap)) return failed(cudaErrorInvalidResourceHandle);
    char *memory = mipmap->levels[0].level.data;
    if (auto error = release("cudaFreeMipmappedArray", memory, false)) return failed(error);
    std::lock_guard<std::mutex> guard(arrays_mutex);
    for (auto &one : mipmap->levels) arrays.erase(&one);
    mipmaps.erase(mipmap);
    delete mipmap;
    return cudaSuccess;
}

API cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc *desc, cudaExtent *extent, unsigned *flags,
                                 cudaArray_t array) {
    WORKING;
    if (!is_array(array)) return failed(cudaErrorInvalidResourceHandle);
    if (desc) *desc = array->desc;
    if (extent) *extent = array->extent;
    if (flags) *flags = array->flags;
    return cudaSuccess;
}
API cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc *desc, cudaArray_const_t array) {
    return cudaArrayGetInfo(desc, nullptr, nullptr, const_cast<cudaArray_t>(array));
}
API cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                cudaChannelFormatKind kind) {
    return {x, y, z, w, kind};
}
