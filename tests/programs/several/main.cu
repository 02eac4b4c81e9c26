// A program of several files with headers of its own; without and with relocatable device code.
#include <cstdio>
#include <cuda_runtime.h>
#include "shared.h"

static __device__ int offset = FIRST;
__global__ void fill(int *x) { x[threadIdx.x] = offset + int(threadIdx.x); }

int main() {
    int *x, host[4];
    cudaMalloc(&x, sizeof host);
    fill<<<1, 4>>>(x);
    launch_twice(x, 4);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d, %s\n", host[0], host[1], host[2], host[3], name());
    return cudaDeviceSynchronize();
}
