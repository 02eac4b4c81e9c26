// Questions about the device, kernels and their occupancy.
#include "check.h"
#include <cstring>

__global__ void __launch_bounds__(256) bounded(float *x) {
    __shared__ float tile[256];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[255 - threadIdx.x];
}
__global__ void dynamic(int *x) {
    extern __shared__ int memory[];
    memory[threadIdx.x] = threadIdx.x;
    if (threadIdx.x == 0) *x = 1;
}

int main() {
    int count, device, value, can, version;
    CALL(cudaGetDeviceCount(&count));
    CALL(cudaSetDevice(0));
    CALL(cudaGetDevice(&device));
    HOLDS(count == 1 && device == 0);
    GIVES(cudaSetDevice(1), cudaErrorInvalidDevice);
    cudaDeviceProp about;
    CALL(cudaGetDeviceProperties(&about, 0));
    printf("%s, %d.%d, %d SMs, %zu MiB\n", about.name, about.major, about.minor,
           about.multiProcessorCount, about.totalGlobalMem >> 20);
    CALL(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    HOLDS(size_t(value) == about.sharedMemPerBlockOptin && about.warpSize == 32);
    CALL(cudaDriverGetVersion(&version));
    HOLDS(version == CUDART_VERSION);
    CALL(cudaDeviceCanAccessPeer(&can, 0, 0));
    GIVES(cudaDeviceEnablePeerAccess(1, 0), cudaErrorInvalidDevice);
    size_t limit;
    CALL(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
    CALL(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
    HOLDS(limit == 2048);

    cudaFuncAttributes kernel;
    CALL(cudaFuncGetAttributes(&kernel, bounded));
    HOLDS(kernel.sharedSizeBytes == 1024 && kernel.maxThreadsPerBlock == 256 && kernel.numRegs > 4);
    int blocks, grid, block;
    CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded, 256, 0));
    HOLDS(blocks == about.maxThreadsPerMultiProcessor / 256);
    CALL(cudaOccupancyMaxPotentialBlockSize(&grid, &block, dynamic, 0, 0));
    HOLDS(block >= 128 &&
          grid == about.multiProcessorCount * (about.maxThreadsPerMultiProcessor / block));

    float *x;
    int *flag;
    CALL(cudaMallocManaged(&x, 1024 * sizeof(float)));
    CALL(cudaMallocManaged(&flag, sizeof(int)));
    cudaGetLastError();
    bounded<<<1, 512>>>(x);
    GIVES(cudaGetLastError(), cudaErrorLaunchOutOfResources);
    bounded<<<1, 2048>>>(x);
    GIVES(cudaGetLastError(), cudaErrorInvalidConfiguration);
    bounded<<<0, 32>>>(x);
    GIVES(cudaGetLastError(), cudaErrorInvalidConfiguration);
    dynamic<<<1, 32, 60000>>>(flag);  // more than 48 KiB must be asked for
    GIVES(cudaGetLastError(), cudaErrorInvalidValue);
    CALL(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
    dynamic<<<1, 32, 60000>>>(flag);
    CALL(cudaGetLastError());
    CALL(cudaDeviceSynchronize());
    HOLDS(*flag == 1);
    GIVES(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20),
          cudaErrorInvalidValue);
    HOLDS(!strcmp(cudaGetErrorName(cudaErrorNoDevice), "cudaErrorNoDevice"));
}
