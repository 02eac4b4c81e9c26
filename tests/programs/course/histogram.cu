// A histogram in shared memory, then added up in global memory.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void histogram(const unsigned char *data, unsigned *bins, size_t n) {
    __shared__ unsigned mine[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) mine[b] = 0;
    __syncthreads();
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[data[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(&bins[b], mine[b]);
}

int main() {
    const size_t n = 1 << 18;
    unsigned char *host = (unsigned char *)malloc(n), *data;
    unsigned bins[256], expected[256] = {}, *device;
    unsigned state = 12345;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        host[i] = (state >> 24) & (state >> 16);
        expected[host[i]]++;
    }
    cudaMalloc((void **)&data, n);
    cudaMalloc((void **)&device, sizeof bins);
    cudaMemcpy(data, host, n, cudaMemcpyHostToDevice);
    cudaMemset(device, 0, sizeof bins);
    cudaDeviceProp about;
    cudaGetDeviceProperties(&about, 0);
    histogram<<<about.multiProcessorCount / 4, 128>>>(data, device, n);
    cudaMemcpy(bins, device, sizeof bins, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < 256; i++) wrong += bins[i] != expected[i];
    printf("%d bins differ; the first holds %u\n", wrong, bins[0]);
    free(host);
    return wrong;
}
