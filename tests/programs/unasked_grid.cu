// A barrier of the grid needs a cooperative launch.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>

__global__ void rounds(int *sum) {
    atomicAdd(sum, 1);
    cooperative_groups::this_grid().sync();
    if (threadIdx.x + blockIdx.x == 0) printf("%d threads\n", *sum);
}

int main() {
    int *sum;
    cudaMalloc(&sum, 4);
    cudaMemset(sum, 0, 4);
    void *arguments[] = {&sum};
    cudaLaunchCooperativeKernel((void *)rounds, 4, 32, arguments, 0, 0);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    printf("%s\n", cudaGetErrorName(
        cudaLaunchCooperativeKernel((void *)rounds, 5000, 1024, arguments, 0, 0)));
    cudaGetLastError();
    rounds<<<4, 32>>>(sum);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return 0;
}
