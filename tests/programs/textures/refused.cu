// Accesses that end a kernel, and objects that cannot be made.
#include "../check.h"

__global__ void store(cudaSurfaceObject_t surface, int row) {
    surf2Dwrite(1.0f, surface, threadIdx.x * 4, row);
}
__global__ void store_at(cudaSurfaceObject_t surface, int byte) {
    surf2Dwrite(1.0f, surface, byte, 0, cudaBoundaryModeClamp);
}
__global__ void fetch(cudaTextureObject_t texture, float *out) {
    *out = tex2D<float>(texture, 0.5f, 0.5f);
}

int main() {
    cudaArray_t array;
    auto format = cudaCreateChannelDesc<float>();
    CALL(cudaMallocArray(&array, &format, 8, 4, cudaArraySurfaceLoadStore));
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray, resource.res.array.array = array;
    cudaTextureDesc desc{};
    cudaTextureObject_t texture;
    cudaSurfaceObject_t surface;
    CALL(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    CALL(cudaCreateSurfaceObject(&surface, &resource));
    float texels[32], *out;
    GIVES(cudaMemcpy2DToArray(array, 4, 0, texels, 32, 32, 4, cudaMemcpyHostToDevice),
          cudaErrorInvalidValue);
    cudaGetLastError();
    CALL(cudaMalloc(&out, 4));
    CALL(cudaDestroyTextureObject(texture));
    fetch<<<1, 1>>>(texture, out);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    CALL(cudaDeviceReset());
    CALL(cudaMallocArray(&array, &format, 8, 4, cudaArraySurfaceLoadStore));
    resource.res.array.array = array;
    CALL(cudaCreateSurfaceObject(&surface, &resource));
    store<<<1, 16>>>(surface, 3);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    CALL(cudaDeviceReset());
    CALL(cudaMallocArray(&array, &format, 8, 4, cudaArraySurfaceLoadStore));
    resource.res.array.array = array;
    CALL(cudaCreateSurfaceObject(&surface, &resource));
    store_at<<<1, 1>>>(surface, 2);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
