// Surfaces: loads, stores and reductions, what happens outside, and copies of arrays.
#include "../check.h"

#include <cstring>

__global__ void invert(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= w || y >= h) return;
    uchar4 c = surf2Dread<uchar4>(from, x * 4, y);
    surf2Dwrite(make_uchar4(255 - c.x, 255 - c.y, 255 - c.z, c.w), to, x * 4, y);
}
__global__ void edges(cudaSurfaceObject_t surface, unsigned *out) {
    int x = int(threadIdx.x) - 2;
    out[threadIdx.x] = surf2Dread<unsigned>(surface, x * 4, 1, cudaBoundaryModeClamp);
    out[32 + threadIdx.x] = surf2Dread<unsigned>(surface, x * 4, 1, cudaBoundaryModeZero);
    surf2Dwrite(7u, surface, x * 4, 5, cudaBoundaryModeZero);  // nothing happens
}
__global__ void count(cudaSurfaceObject_t surface) {
    asm volatile("sured.b.add.2d.u32.trap [%0, {%1, %2}], %3;" ::"l"(surface),
                 "r"(threadIdx.x % 4 * 4), "r"(0), "r"(threadIdx.x));
}
__global__ void volume(cudaSurfaceObject_t surface, cudaSurfaceObject_t stack) {
    int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
    surf3Dwrite(make_float2(x, y + 10 * z), surface, x * 8, y, z);
    surf2DLayeredwrite((unsigned char)(x + 16 * z), stack, x, y, z);
}

template <class T>
struct Surface {
    cudaArray_t array;
    cudaSurfaceObject_t object;
    Surface(cudaExtent extent, unsigned flags = 0) {
        auto format = cudaCreateChannelDesc<T>();
        CALL(cudaMalloc3DArray(&array, &format, extent, flags | cudaArraySurfaceLoadStore));
        cudaResourceDesc resource{};
        resource.resType = cudaResourceTypeArray, resource.res.array.array = array;
        CALL(cudaCreateSurfaceObject(&object, &resource));
    }
    ~Surface() {
        CALL(cudaDestroySurfaceObject(object));
        CALL(cudaFreeArray(array));
    }
};

void test_pictures() {
    const int w = 20, h = 6;
    Surface<uchar4> a(make_cudaExtent(w, h, 0)), b(make_cudaExtent(w, h, 0));
    unsigned char bytes[w * h * 4], back[w * h * 4];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = i * 31;
    CALL(cudaMemcpy2DToArray(a.array, 0, 0, bytes, w * 4, w * 4, h, cudaMemcpyHostToDevice));
    invert<<<dim3(1, h), 32>>>(a.object, b.object, w, h);
    CALL(cudaMemcpy2DArrayToArray(a.array, 0, 0, b.array, 0, 0, w * 4, h));
    CALL(cudaMemcpy2DFromArray(back, w * 4, a.array, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < sizeof bytes; i++)
        HOLDS(back[i] == (i % 4 == 3 ? bytes[i] : 255 - bytes[i]));
}

void test_edges() {
    Surface<unsigned> s(make_cudaExtent(4, 3, 0));
    unsigned texels[12], out[64], *device;
    for (int i = 0; i < 12; i++) texels[i] = 100 + i;
    CALL(cudaMemcpy2DToArray(s.array, 0, 0, texels, 16, 16, 3, cudaMemcpyHostToDevice));
    CALL(cudaMalloc(&device, sizeof out));
    CALL(cudaMemset(device, 0, sizeof out));
    edges<<<1, 8>>>(s.object, device);
    CALL(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    const unsigned near[] = {104, 104, 104, 105, 106, 107, 107, 107};
    const unsigned zero[] = {0, 0, 104, 105, 106, 107, 0, 0};
    HOLDS(!memcmp(out, near, sizeof near) && !memcmp(out + 32, zero, sizeof zero));
    count<<<3, 64>>>(s.object);
    unsigned sums[12];
    CALL(cudaMemcpy2DFromArray(sums, 16, s.array, 0, 0, 16, 3, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 4; i++) HOLDS(sums[i] == 100 + i + 3u * (16 * i + 4 * 120));
    HOLDS(!memcmp(sums + 4, texels + 4, 32));
    CALL(cudaFree(device));
}

void test_volumes() {
    Surface<float2> v(make_cudaExtent(5, 4, 3));
    Surface<unsigned char> l(make_cudaExtent(5, 4, 3), cudaArrayLayered);
    volume<<<1, dim3(5, 4, 3)>>>(v.object, l.object);
    float2 box[3 * 4 * 5];
    cudaMemcpy3DParms copy{};
    copy.srcArray = v.array, copy.extent = make_cudaExtent(5, 4, 3);
    copy.dstPtr = make_cudaPitchedPtr(box, 5 * sizeof(float2), 5, 4);
    copy.kind = cudaMemcpyDeviceToHost;
    CALL(cudaMemcpy3D(&copy));
    for (int i = 0; i < 60; i++) HOLDS(box[i].x == i % 5 && box[i].y == i / 5 % 4 + 10 * (i / 20));
    unsigned char bytes[2 * 2 * 2];  // a part of the layers
    copy = {};
    copy.srcArray = l.array, copy.srcPos = make_cudaPos(2, 1, 1);
    copy.extent = make_cudaExtent(2, 2, 2), copy.kind = cudaMemcpyDeviceToHost;
    copy.dstPtr = make_cudaPitchedPtr(bytes, 2, 2, 2);
    CALL(cudaMemcpy3D(&copy));
    const unsigned char expected[] = {18, 19, 18, 19, 34, 35, 34, 35};
    HOLDS(!memcmp(bytes, expected, sizeof bytes));
}

int main() {
    test_pictures();
    test_edges();
    test_volumes();
    CALL(cudaDeviceSynchronize());
    printf("surfaces agree\n");
}
