// Clearing large memory of which few pages were written, whatever the size of the host's pages.
#include "check.h"

__global__ void write(unsigned char *x, size_t step) { x[threadIdx.x * step] = 255; }
__global__ void count(const unsigned char *x, size_t n, int *left) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n && x[i]) atomicAdd(left, 1);
}

int main() {
    const size_t n = 6 << 20, step = n / 64;
    unsigned char *x;
    int *left;
    CALL(cudaMalloc(&x, n));
    CALL(cudaMallocManaged(&left, sizeof(int)));
    for (int round = 0; round < 2; round++) {
        write<<<1, 64>>>(x, step);
        if (round) CALL(cudaMemset(x + 3, 0, n - 3));
        *left = 0;
        count<<<unsigned(n / 1024), 1024>>>(x, n, left);
        CALL(cudaDeviceSynchronize());
        printf("%d bytes left\n", *left);
    }
}
