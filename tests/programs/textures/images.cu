// Pictures as textures: a blur, a zoom with linear filtering, a stack of layers, mipmaps, cube maps.
#include "../check.h"

#include <vector>

constexpr int W = 40, H = 24;

template <class T>
struct Picture {
    cudaArray_t array;
    cudaTextureObject_t object = 0;
    Picture(const std::vector<T> &texels, cudaExtent extent, unsigned flags, cudaTextureDesc desc) {
        auto format = cudaCreateChannelDesc<T>();
        CALL(cudaMalloc3DArray(&array, &format, extent, flags));
        cudaMemcpy3DParms copy{};
        size_t h = extent.height ? extent.height : 1, d = extent.depth ? extent.depth : 1;
        copy.srcPtr = make_cudaPitchedPtr(const_cast<T *>(texels.data()), extent.width * sizeof(T),
                                          extent.width, h);
        copy.dstArray = array, copy.kind = cudaMemcpyHostToDevice;
        copy.extent = make_cudaExtent(extent.width, h, d);
        CALL(cudaMemcpy3D(&copy));
        cudaResourceDesc resource{};
        resource.resType = cudaResourceTypeArray, resource.res.array.array = array;
        CALL(cudaCreateTextureObject(&object, &resource, &desc, nullptr));
        cudaResourceDesc asked;
        CALL(cudaGetTextureObjectResourceDesc(&asked, object));
        HOLDS(asked.res.array.array == array);
    }
    ~Picture() {
        CALL(cudaDestroyTextureObject(object));
        CALL(cudaFreeArray(array));
    }
};

// ---- a blur of bytes, read as numbers from 0 to 1 -----------------------------------------------

__global__ void blur(cudaTextureObject_t picture, float *out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H) return;
    float sum = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) sum += tex2D<float>(picture, x + dx + 0.5f, y + dy + 0.5f);
    out[y * W + x] = sum / 9;
}

void test_blur(float *device, std::vector<float> &out) {
    std::vector<unsigned char> bytes(W * H);
    for (int i = 0; i < W * H; i++) bytes[i] = i * 7919 >> 3;
    cudaTextureDesc desc{};
    desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeClamp;
    desc.readMode = cudaReadModeNormalizedFloat;
    Picture<unsigned char> picture(bytes, make_cudaExtent(W, H, 0), 0, desc);
    blur<<<dim3((W + 15) / 16, (H + 15) / 16), dim3(16, 16)>>>(picture.object, device);
    CALL(cudaMemcpy(out.data(), device, W * H * 4, cudaMemcpyDeviceToHost));
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            float sum = 0;
            for (int dy = -1; dy <= 1; dy++)
                for (int dx = -1; dx <= 1; dx++) {
                    int u = std::min(std::max(x + dx, 0), W - 1);
                    int v = std::min(std::max(y + dy, 0), H - 1);
                    sum += bytes[v * W + u] / 255.0f;
                }
            HOLDS(out[y * W + x] == sum / 9);
        }
}

// ---- a zoom: weights have eight fraction bits ---------------------------------------------------

__global__ void zoom(cudaTextureObject_t picture, float *out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < w) out[y * w + x] = tex2D<float>(picture, (x + 0.5f) / w, (y + 0.5f) / h);
}

void test_zoom(float *device, std::vector<float> &out) {
    const int w = 8, h = 4;  // to five times the size
    std::vector<float> texels(w * h);
    for (int i = 0; i < w * h; i++) texels[i] = i % w * 256;  // a ramp along x
    cudaTextureDesc desc{};
    desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeClamp;
    desc.filterMode = cudaFilterModeLinear, desc.normalizedCoords = 1;
    Picture<float> picture(texels, make_cudaExtent(w, h, 0), 0, desc);
    zoom<<<dim3(2, 20), 32>>>(picture.object, device, 40, 20);
    CALL(cudaMemcpy(out.data(), device, 40 * 20 * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 800; i++) {
        double at = ((i % 40 + 0.5) / 5 - 0.5) * 256;
        double expected = std::min(std::max(at, 0.0), 256.0 * (w - 1));
        HOLDS(out[i] == int(out[i]));  // a multiple of 1/256 of the step between two texels
        HOLDS(out[i] - expected < 0.51 && expected - out[i] < 0.51);
    }
}

// ---- layers, levels and faces -------------------------------------------------------------------

__global__ void layers(cudaTextureObject_t stack, float *out) {
    int i = threadIdx.x;
    out[i] = tex2DLayered<float>(stack, i % 4 + 0.5f, 1.5f, i / 4 - 1);
}
__global__ void levels(cudaTextureObject_t pyramid, float *out) {
    out[threadIdx.x] = tex2DLod<float>(pyramid, 0.3f, 0.7f, threadIdx.x * 0.25f);
    out[32 + threadIdx.x] = tex2DGrad<float>(pyramid, 0.3f, 0.7f, make_float2(0.0625f * (1 << threadIdx.x), 0),
                                             make_float2(0, 0));
}
__global__ void faces(cudaTextureObject_t world, float *out) {
    const float directions[6][3] = {{1, 0.1f, 0.2f},  {-1, 0.1f, 0.2f}, {0.1f, 1, 0.2f},
                                    {0.1f, -1, 0.2f}, {0.1f, 0.2f, 1},  {0.1f, 0.2f, -1}};
    const float *d = directions[threadIdx.x];
    out[threadIdx.x] = texCubemap<float>(world, d[0], d[1], d[2]);
}

void test_layers(float *device, std::vector<float> &out) {
    std::vector<float> texels(4 * 3 * 5);
    for (size_t i = 0; i < texels.size(); i++) texels[i] = i;
    Picture<float> stack(texels, make_cudaExtent(4, 3, 5), cudaArrayLayered, {});
    layers<<<1, 28>>>(stack.object, device);
    CALL(cudaMemcpy(out.data(), device, 28 * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 28; i++)  // a layer that is not there is the last one
        HOLDS(out[i] == i % 4 + 4 + 12 * (i < 4 ? 4 : std::min(i / 4 - 1, 4)));
    cudaTextureDesc desc{};
    desc.normalizedCoords = 1;
    texels.resize(6 * 16);
    for (size_t i = 0; i < texels.size(); i++) texels[i] = i / 16;
    Picture<float> world(texels, make_cudaExtent(4, 4, 6), cudaArrayCubemap, desc);
    faces<<<1, 6>>>(world.object, device);
    CALL(cudaMemcpy(out.data(), device, 6 * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 6; i++) HOLDS(out[i] == i);
}

void test_levels(float *device, std::vector<float> &out) {
    cudaMipmappedArray_t pyramid;
    auto format = cudaCreateChannelDesc<float>();
    CALL(cudaMallocMipmappedArray(&pyramid, &format, make_cudaExtent(16, 16, 0), 5));
    for (int level = 0; level < 5; level++) {
        cudaArray_t array;
        CALL(cudaGetMipmappedArrayLevel(&array, pyramid, level));
        int n = 16 >> level;
        std::vector<float> texels(n * n, float(level));
        CALL(cudaMemcpy2DToArray(array, 0, 0, texels.data(), n * 4, n * 4, n,
                                 cudaMemcpyHostToDevice));
    }
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeMipmappedArray, resource.res.mipmap.mipmap = pyramid;
    cudaTextureDesc desc{};
    desc.normalizedCoords = 1, desc.filterMode = desc.mipmapFilterMode = cudaFilterModeLinear;
    desc.maxMipmapLevelClamp = 3;
    cudaTextureObject_t object;
    CALL(cudaCreateTextureObject(&object, &resource, &desc, nullptr));
    levels<<<1, 8>>>(object, device);
    CALL(cudaMemcpy(out.data(), device, 40 * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++) {
        HOLDS(out[i] == i * 0.25f);
        HOLDS(out[32 + i] == std::min(i, 3));
    }
    CALL(cudaDestroyTextureObject(object));
    CALL(cudaFreeMipmappedArray(pyramid));
}

// ---- memory without an array --------------------------------------------------------------------

__global__ void fetches(cudaTextureObject_t line, cudaTextureObject_t rows, int *out) {
    int i = threadIdx.x;
    out[i] = tex1Dfetch<int>(line, i - 4);
    out[32 + i] = tex2D<int>(rows, float(i % 8), float(i / 8));
}

void test_memory(int *device) {
    int *memory, out[64];
    size_t pitch;
    CALL(cudaMallocPitch(&memory, &pitch, 8 * sizeof(int), 4));
    for (int i = 0; i < 32; i++) out[i] = 100 + i;
    CALL(cudaMemcpy2D(memory, pitch, out, 32, 32, 4, cudaMemcpyHostToDevice));
    cudaResourceDesc resource{};
    cudaTextureDesc desc{};
    cudaTextureObject_t line, rows;
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear = {memory, cudaCreateChannelDesc<int>(), 8 * sizeof(int)};
    CALL(cudaCreateTextureObject(&line, &resource, &desc, nullptr));
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D = {memory, cudaCreateChannelDesc<int>(), 8, 4, pitch};
    CALL(cudaCreateTextureObject(&rows, &resource, &desc, nullptr));
    fetches<<<1, 32>>>(line, rows, device);
    CALL(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) {  // beyond its ends, memory reads as zeros
        HOLDS(out[i] == (i >= 4 && i < 12 ? 96 + i : 0));
        HOLDS(out[32 + i] == 100 + i);
    }
    CALL(cudaDestroyTextureObject(line));
    CALL(cudaDestroyTextureObject(rows));
    CALL(cudaFree(memory));
}

int main() {
    float *device;
    std::vector<float> out(W * H);
    CALL(cudaMalloc(&device, W * H * sizeof(float)));
    test_blur(device, out);
    test_zoom(device, out);
    test_layers(device, out);
    test_levels(device, out);
    test_memory(reinterpret_cast<int *>(device));
    CALL(cudaFree(device));
    printf("pictures agree\n");
}
