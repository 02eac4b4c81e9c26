// The driver API of arrays, textures and surfaces, each by the runtime's function.
#include "../driver_result.h"
#include "arrays.h"

using namespace weft;

namespace {
cudaArray_t array_of(CUarray array) { return reinterpret_cast<cudaArray_t>(array); }
cudaMipmappedArray_t mipmap_of(CUmipmappedArray mipmap) {
    return reinterpret_cast<cudaMipmappedArray_t>(mipmap);
}

const struct FormatRow {
    CUarray_format format;
    int bits;
    cudaChannelFormatKind kind;
} FORMATS[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, 8, cudaChannelFormatKindUnsigned},
    {CU_AD_FORMAT_UNSIGNED_INT16, 16, cudaChannelFormatKindUnsigned},
    {CU_AD_FORMAT_UNSIGNED_INT32, 32, cudaChannelFormatKindUnsigned},
    {CU_AD_FORMAT_SIGNED_INT8, 8, cudaChannelFormatKindSigned},
    {CU_AD_FORMAT_SIGNED_INT16, 16, cudaChannelFormatKindSigned},
    {CU_AD_FORMAT_SIGNED_INT32, 32, cudaChannelFormatKindSigned},
    {CU_AD_FORMAT_HALF, 16, cudaChannelFormatKindFloat},
    {CU_AD_FORMAT_FLOAT, 32, cudaChannelFormatKindFloat},
};

// A format that weft does not know has no channels, which the runtime's functions refuse.
cudaChannelFormatDesc channels_of(CUarray_format format, unsigned count) {
    for (auto &row : FORMATS)
        if (row.format == format) {
            auto bits = [&](unsigned i) { return i < count ? row.bits : 0; };
            return {bits(0), bits(1), bits(2), bits(3), row.kind};
        }
    return {0, 0, 0, 0, cudaChannelFormatKindNone};
}
CUarray_format format_name(const Format &format) {
    for (auto &row : FORMATS)
        if (row.bits == format.bits && row.kind == format.kind) return row.format;
    return CU_AD_FORMAT_FLOAT;
}

cudaResourceDesc resource_of(const CUDA_RESOURCE_DESC &d) {
    cudaResourceDesc out{};
    out.resType = static_cast<cudaResourceType>(d.resType);
    switch (d.resType) {
        case CU_RESOURCE_TYPE_ARRAY: out.res.array.array = array_of(d.res.array.hArray); break;
        case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
            out.res.mipmap.mipmap = mipmap_of(d.res.mipmap.hMipmappedArray);
            break;
        case CU_RESOURCE_TYPE_LINEAR: {
            auto &r = d.res.linear;
            out.res.linear = {reinterpret_cast<void *>(r.devPtr),
                              channels_of(r.format, r.numChannels), r.sizeInBytes};
            break;
        }
        default: {
            auto &r = d.res.pitch2D;
            out.res.pitch2D = {reinterpret_cast<void *>(r.devPtr),
                               channels_of(r.format, r.numChannels), r.width, r.height,
                               r.pitchInBytes};
        }
    }
    return out;
}

// Integers of a driver's texture are normalized unless a flag says otherwise.
cudaTextureDesc sampler_of(const CUDA_TEXTURE_DESC &d, const CUDA_RESOURCE_DESC &resource) {
    cudaTextureDesc out{};
    for (int i = 0; i < 3; i++)
        out.addressMode[i] = static_cast<cudaTextureAddressMode>(d.addressMode[i]);
    auto described = resource_of(resource);
    bool wide = resource.resType == CU_RESOURCE_TYPE_ARRAY &&
                is_array(described.res.array.array) && described.res.array.array->format.bits == 32;
    bool integers = d.flags & CU_TRSF_READ_AS_INTEGER || wide;
    out.filterMode = static_cast<cudaTextureFilterMode>(d.filterMode);
    out.readMode = integers ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
    out.sRGB = bool(d.flags & CU_TRSF_SRGB);
    memcpy(out.borderColor, d.borderColor, sizeof out.borderColor);
    out.normalizedCoords = bool(d.flags & CU_TRSF_NORMALIZED_COORDINATES);
    out.maxAnisotropy = d.maxAnisotropy;
    out.mipmapFilterMode = static_cast<cudaTextureFilterMode>(d.mipmapFilterMode);
    out.mipmapLevelBias = d.mipmapLevelBias;
    out.minMipmapLevelClamp = d.minMipmapLevelClamp;
    out.maxMipmapLevelClamp = d.maxMipmapLevelClamp;
    out.disableTrilinearOptimization = bool(d.flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION);
    out.seamlessCubemap = bool(d.flags & CU_TRSF_SEAMLESS_CUBEMAP);
    return out;
}
}  // namespace

// ---- arrays -------------------------------------------------------------------------------------

API CUresult cuArray3DCreate(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d) {
    auto desc = channels_of(d->Format, d->NumChannels);
    return result(cudaMalloc3DArray(reinterpret_cast<cudaArray_t *>(out), &desc, {d->Width,
                                    d->Height, d->Depth}, d->Flags));
}
// A two-dimensional array of the driver may always be a surface.
API CUresult cuArrayCreate(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d) {
    auto desc = channels_of(d->Format, d->NumChannels);
    return result(cudaMallocArray(reinterpret_cast<cudaArray_t *>(out), &desc, d->Width, d->Height,
                                  cudaArraySurfaceLoadStore));
}
API CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray handle) {
    auto *array = array_of(handle);
    if (!is_array(array)) return CUDA_ERROR_INVALID_HANDLE;
    *out = {array->extent.width,        array->extent.height,
            array->extent.depth,        format_name(array->format),
            unsigned(array->format.channels), array->flags};
    return CUDA_SUCCESS;
}
API CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR *out, CUarray handle) {
    CUDA_ARRAY3D_DESCRIPTOR d;
    if (auto error = cuArray3DGetDescriptor(&d, handle)) return error;
    *out = {d.Width, d.Height, d.Format, d.NumChannels};
    return CUDA_SUCCESS;
}
API CUresult cuArrayDestroy(CUarray array) { return result(cudaFreeArray(array_of(array))); }
API CUresult cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d,
                                    unsigned levels) {
    auto desc = channels_of(d->Format, d->NumChannels);
    return result(cudaMallocMipmappedArray(reinterpret_cast<cudaMipmappedArray_t *>(out), &desc,
                                           {d->Width, d->Height, d->Depth}, levels, d->Flags));
}
API CUresult cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray mipmap, unsigned level) {
    return result(cudaGetMipmappedArrayLevel(reinterpret_cast<cudaArray_t *>(out),
                                             mipmap_of(mipmap), level));
}
API CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmap) {
    return result(cudaFreeMipmappedArray(mipmap_of(mipmap)));
}

// ---- copies -------------------------------------------------------------------------------------

namespace {
// One side of a copy; positions along x and widths count bytes.
CUresult driver_side(CUmemorytype type, const void *host, CUdeviceptr device, CUarray handle,
                     size_t pitch, size_t height, size_t x, size_t y, size_t z, const Size &size,
                     Box *out) {
    if (type != CU_MEMORYTYPE_ARRAY) {
        auto *start = type == CU_MEMORYTYPE_HOST ? static_cast<const char *>(host)
                                                 : reinterpret_cast<const char *>(device);
        size_t row = pitch ? pitch : x + size.width;
        size_t plane = row * (height ? height : y + size.height);
        *out = {const_cast<char *>(start) + z * plane + y * row + x, row, plane};
        return CUDA_SUCCESS;
    }
    auto *array = array_of(handle);
    if (!is_array(array)) return CUDA_ERROR_INVALID_HANDLE;
    auto &level = array->level;
    if (x + size.width > level.pitch || y + size.height > size_t(level.height) ||
        z + size.depth > size_t(level.depth))
        return CUDA_ERROR_INVALID_VALUE;
    *out = box_of(array, x, y, z);
    return CUDA_SUCCESS;
}

CUresult driver_copy(const char *call, const CUDA_MEMCPY3D &c, CUstream stream, bool waits) {
    Size size{c.WidthInBytes, c.Height, c.Depth};
    Box to, from;
    if (auto error = driver_side(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstPitch,
                                 c.dstHeight, c.dstXInBytes, c.dstY, c.dstZ, size, &to))
        return error;
    if (auto error = driver_side(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcPitch,
                                 c.srcHeight, c.srcXInBytes, c.srcY, c.srcZ, size, &from))
        return error;
    return result(copy_box(call, to, from, size, cudaMemcpyDefault, stream, waits));
}

CUDA_MEMCPY3D flat(const CUDA_MEMCPY2D &c) {
    CUDA_MEMCPY3D out{};
    out.srcXInBytes = c.srcXInBytes, out.srcY = c.srcY, out.srcMemoryType = c.srcMemoryType;
    out.srcHost = c.srcHost, out.srcDevice = c.srcDevice, out.srcArray = c.srcArray;
    out.srcPitch = c.srcPitch;
    out.dstXInBytes = c.dstXInBytes, out.dstY = c.dstY, out.dstMemoryType = c.dstMemoryType;
    out.dstHost = c.dstHost, out.dstDevice = c.dstDevice, out.dstArray = c.dstArray;
    out.dstPitch = c.dstPitch;
    out.WidthInBytes = c.WidthInBytes, out.Height = c.Height, out.Depth = 1;
    return out;
}
}  // namespace

API CUresult cuMemcpy2D(const CUDA_MEMCPY2D *c) {
    return driver_copy("cuMemcpy2D", flat(*c), nullptr, true);
}
API CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *c) {
    return driver_copy("cuMemcpy2DUnaligned", flat(*c), nullptr, true);
}
API CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *c, CUstream stream) {
    return driver_copy("cuMemcpy2DAsync", flat(*c), stream, false);
}
API CUresult cuMemcpy3D(const CUDA_MEMCPY3D *c) {
    return driver_copy("cuMemcpy3D", *c, nullptr, true);
}
API CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *c, CUstream stream) {
    return driver_copy("cuMemcpy3DAsync", *c, stream, false);
}
API CUresult cuMemcpyHtoA(CUarray to, size_t at, const void *from, size_t bytes) {
    return result(cudaMemcpyToArray(array_of(to), at, 0, from, bytes, cudaMemcpyHostToDevice));
}
API CUresult cuMemcpyAtoH(void *to, CUarray from, size_t at, size_t bytes) {
    return result(cudaMemcpyFromArray(to, array_of(from), at, 0, bytes, cudaMemcpyDeviceToHost));
}

// ---- objects ------------------------------------------------------------------------------------

API CUresult cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *resource,
                               const CUDA_TEXTURE_DESC *desc, const CUDA_RESOURCE_VIEW_DESC *view) {
    auto described = resource_of(*resource);
    auto sampler = sampler_of(*desc, *resource);
    static_assert(sizeof(cudaResourceViewDesc) <= sizeof(CUDA_RESOURCE_VIEW_DESC),
                  "the same fields");
    return result(cudaCreateTextureObject(out, &described, &sampler,
                                          reinterpret_cast<const cudaResourceViewDesc *>(view)));
}
API CUresult cuTexObjectDestroy(CUtexObject object) {
    return result(cudaDestroyTextureObject(object));
}
API CUresult cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *resource) {
    auto described = resource_of(*resource);
    return result(cudaCreateSurfaceObject(out, &described));
}
API CUresult cuSurfObjectDestroy(CUsurfObject object) {
    return result(cudaDestroySurfaceObject(object));
}
