// Sizes of textures and surfaces, which are the same for all GPUs that are simulated.
#include "arrays.h"

#include <algorithm>

namespace weft {
void texture_limits(cudaDeviceProp *out) {
    auto set = [](int *to, std::initializer_list<int> sizes) {
        std::copy(sizes.begin(), sizes.end(), to);
    };
    out->textureAlignment = out->surfaceAlignment = TEXTURE_ALIGN;
    out->texturePitchAlignment = TEXTURE_PITCH_ALIGN;
    out->maxTexture1D = 131072, out->maxTexture1DMipmap = 32768;
    set(out->maxTexture2D, {131072, 65536});
    set(out->maxTexture2DMipmap, {32768, 32768});
    set(out->maxTexture2DLinear, {131072, 65000, 2097120});
    set(out->maxTexture2DGather, {32768, 32768});
    set(out->maxTexture3D, {16384, 16384, 16384});
    set(out->maxTexture3DAlt, {8192, 8192, 32768});
    out->maxTextureCubemap = 32768;
    set(out->maxTexture1DLayered, {32768, 2048});
    set(out->maxTexture2DLayered, {32768, 32768, 2048});
    set(out->maxTextureCubemapLayered, {32768, 2046});
    out->maxSurface1D = 32768;
    set(out->maxSurface2D, {131072, 65536});
    set(out->maxSurface3D, {16384, 16384, 16384});
    set(out->maxSurface1DLayered, {32768, 2048});
    set(out->maxSurface2DLayered, {32768, 32768, 2048});
    out->maxSurfaceCubemap = 32768;
    set(out->maxSurfaceCubemapLayered, {32768, 2046});
}

size_t most_linear_texels(const Format &format) {
    return std::min<size_t>(1 << 30, (size_t(1) << 32) / format.bytes());
}
}  // namespace weft

using namespace weft;

API cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t *out, const cudaChannelFormatDesc *desc,
                                                     int) {
    WORKING;
    Format format;
    if (!out || !desc || !format_of(*desc, &format)) return failed(cudaErrorInvalidValue);
    *out = most_linear_texels(format);
    return cudaSuccess;
}
