// Sizes of textures and surfaces, which are the same for all GPUs that are simulated.
#include "weft.h"

namespace weft {
void texture_limits(cudaDeviceProp *out) {
    auto set = [](int *to, std::initializer_list<int> sizes) {
        for (int size : sizes) *to++ = size;
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
}  // namespace weft
