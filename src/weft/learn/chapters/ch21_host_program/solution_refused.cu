// Halves the block until the launch is accepted.
#include <cstdio>
#include <cstdlib>

__global__ void add(int* counter, int n) {
    if (blockIdx.x * blockDim.x + threadIdx.x < n) atomicAdd(counter, 1);
}

int main(int count, char** arguments) {
    int n = count > 1 ? atoi(arguments[1]) : 2000;
    int *d_counter, h_counter, refused = 0, block = n;
    cudaMalloc(&d_counter, sizeof(int));
    cudaMemset(d_counter, 0, sizeof(int));
    for (;; refused++, block = (block + 1) / 2) {
        add<<<(n + block - 1) / block, block>>>(d_counter, n);
        if (cudaGetLastError() == cudaSuccess) break;
    }
    cudaMemcpy(&h_counter, d_counter, sizeof(int), cudaMemcpyDeviceToHost);
    cudaFree(d_counter);
    printf("%d\n", 10000 * refused + h_counter);
}
