// Arrays, textures and surfaces by the driver API; the kernels are launched by the runtime.
#include "../check.h"

#include <cstring>
#include <cuda.h>

#define DRIVER(call) HOLDS((call) == CUDA_SUCCESS)

__global__ void fetch(CUtexObject texture, float4 *out) {
    out[threadIdx.x] = tex2D<float4>(texture, (threadIdx.x + 0.5f) / 8, 0.5f);
}
__global__ void shift(CUsurfObject surface) {
    ushort4 texel = surf2Dread<ushort4>(surface, threadIdx.x * 8, 1);
    surf2Dwrite(make_ushort4(texel.y, texel.z, texel.w, texel.x), surface, threadIdx.x * 8, 0);
}

int main() {
    DRIVER(cuInit(0));
    CUcontext context;
    DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
    DRIVER(cuCtxSetCurrent(context));
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR d{8, 2, 0, CU_AD_FORMAT_UNSIGNED_INT16, 4, CUDA_ARRAY3D_SURFACE_LDST};
    DRIVER(cuArray3DCreate(&array, &d));
    CUDA_ARRAY_DESCRIPTOR asked;
    DRIVER(cuArrayGetDescriptor(&asked, array));
    HOLDS(asked.Width == 8 && asked.Format == CU_AD_FORMAT_UNSIGNED_INT16 && asked.NumChannels == 4);
    unsigned short texels[2][8][4], back[2][8][4];
    for (int i = 0; i < 64; i++) texels[i / 32][i / 4 % 8][i % 4] = i * 1000;
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = texels, copy.srcPitch = 64;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array;
    copy.WidthInBytes = 64, copy.Height = 2;
    DRIVER(cuMemcpy2D(&copy));
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY, resource.res.array.hArray = array;
    CUDA_TEXTURE_DESC sampler{};
    sampler.flags = CU_TRSF_NORMALIZED_COORDINATES;
    CUtexObject texture;
    CUsurfObject surface;
    DRIVER(cuTexObjectCreate(&texture, &resource, &sampler, nullptr));
    DRIVER(cuSurfObjectCreate(&surface, &resource));
    shift<<<1, 8>>>(surface);
    float4 out[8], *device;
    CALL(cudaMalloc(&device, sizeof out));
    fetch<<<1, 8>>>(texture, device);  // row 1, as numbers from 0 to 1
    CALL(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++) HOLDS(out[i].y == texels[1][i][1] / 65535.0f);
    CUDA_MEMCPY3D box{};
    box.srcMemoryType = CU_MEMORYTYPE_ARRAY, box.srcArray = array;
    box.dstMemoryType = CU_MEMORYTYPE_HOST, box.dstHost = back, box.dstPitch = 64;
    box.WidthInBytes = 64, box.Height = 2, box.Depth = 1;
    DRIVER(cuMemcpy3D(&box));
    for (int i = 0; i < 32; i++) HOLDS(back[0][i / 4][i % 4] == texels[1][i / 4][(i + 1) % 4]);
    HOLDS(!memcmp(back[1], texels[1], 64));
    DRIVER(cuTexObjectDestroy(texture));
    DRIVER(cuSurfObjectDestroy(surface));
    DRIVER(cuArrayDestroy(array));
    CALL(cudaFree(device));
    printf("the driver agrees\n");
}
