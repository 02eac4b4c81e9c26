// A launch that fills the GPU, whichever it is.
#include <cstdio>
#include <cstdlib>

__global__ void count_threads(int* total) {
    if (threadIdx.x == 0) atomicAdd(total, blockDim.x);
}

int main(int count, char** arguments) {
    cudaDeviceProp gpu;
    cudaGetDeviceProperties(&gpu, 0);
    int threads = gpu.warpSize * atoi(arguments[1]), *d_total, total;
    int blocks = gpu.multiProcessorCount * (gpu.maxThreadsPerMultiProcessor / threads);
    cudaMalloc(&d_total, sizeof(int));
    cudaMemset(d_total, 0, sizeof(int));
    count_threads<<<blocks, threads>>>(d_total);
    cudaMemcpy(&total, d_total, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d\n", total);
    cudaFree(d_total);
}
