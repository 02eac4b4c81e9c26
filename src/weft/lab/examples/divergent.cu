// Odd and even lanes take different branches, one after the other. `printf` shows in Output.

#include <cstdio>

__global__ void branch(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (i % 2) y[i] = sinf(x[i]);
    else y[i] = sqrtf(fabsf(x[i]));
    if (i == 0) printf("block of %d threads, y[0] = %f\n", blockDim.x, y[0]);
}
