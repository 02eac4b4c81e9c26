// A missing barrier: each thread reads what its neighbour may not have written yet.
#include "check.h"

__global__ void shift(int *x) {
    __shared__ int tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = tile[(threadIdx.x + 33) % 64];
}

int main() {
    int *x;
    CALL(cudaMalloc(&x, 64 * sizeof(int)));
    CALL(cudaMemset(x, 0, 64 * sizeof(int)));
    for (int i = 0; i < 2; i++) shift<<<1, 64>>>(x);
    CALL(cudaDeviceSynchronize());
}
