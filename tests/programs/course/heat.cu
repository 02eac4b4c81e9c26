// Heat in a plate: Jacobi steps over a pitched array until it changes no more; convergence seen by
// the host.
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <utility>

__device__ unsigned worst_bits;

__global__ void jacobi(const float *in, float *out, size_t pitch, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1,
        y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (x >= w - 1 || y >= h - 1) return;
    size_t p = pitch / sizeof(float);
    float value =
        0.25f * (in[y * p + x - 1] + in[y * p + x + 1] + in[(y - 1) * p + x] + in[(y + 1) * p + x]);
    atomicMax(&worst_bits, __float_as_uint(fabsf(value - in[y * p + x])));
    out[y * p + x] = value;
}

int main() {
    const int w = 34, h = 34;
    float host[h][w] = {}, *a, *b;
    for (int x = 0; x < w; x++) host[0][x] = 100;
    size_t pitch, again;
    cudaMallocPitch(&a, &pitch, w * sizeof(float), h);
    cudaMallocPitch(&b, &again, w * sizeof(float), h);
    for (float *plate : {a, b})
        cudaMemcpy2D(plate, pitch, host, sizeof host[0], w * sizeof(float), h,
                     cudaMemcpyHostToDevice);
    int steps = 0;
    for (float worst = 1; worst > 0.01f; steps++) {
        unsigned zero = 0, bits;
        cudaMemcpyToSymbol(worst_bits, &zero, sizeof zero);
        jacobi<<<dim3(1, 4), dim3(32, 8)>>>(a, b, pitch, w, h);
        cudaMemcpyFromSymbol(&bits, worst_bits, sizeof bits);
        memcpy(&worst, &bits, sizeof worst);
        std::swap(a, b);
    }
    cudaMemcpy2D(host, sizeof host[0], a, pitch, w * sizeof(float), h, cudaMemcpyDeviceToHost);
    printf("%d steps, centre %.2f\n", steps, host[h / 2][w / 2]);
    return cudaGetLastError();
}
