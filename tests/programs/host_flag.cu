// A kernel waits for a flag that the host, which waits for the kernel, does not set.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void wait_for(volatile int *flag) { while (*flag == 0) { } }

int main() {
    int *flag;
    cudaMallocManaged(&flag, 4);
    *flag = 0;
    wait_for<<<2, 32>>>(flag);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return 0;
}
