// A kernel that forgets the bound: reported with its line; the error stays until a reset.
#include "check.h"

__global__ void increment(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] += 1;  // if (i < n) is missing
}

int main(int argc, char **argv) {
    const int n = 1000;
    int *x, *y;
    CALL(cudaMalloc(&x, n * sizeof(int)));
    CALL(cudaMemset(x, 0, n * sizeof(int)));
    increment<<<4, 256>>>(x, n);
    if (argc > 1 && *argv[1] == 'c') {  // a program that throws away what a call returns
        int out;
        cudaMemcpy(&out, x, sizeof out, cudaMemcpyDeviceToHost);
    }
    if (argc > 1) return 0;  // a program that does not look
    GIVES(cudaGetLastError(), cudaSuccess);
    GIVES(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
    GIVES(cudaMalloc(&y, 16), cudaErrorIllegalAddress);
    GIVES(cudaGetLastError(), cudaErrorIllegalAddress);
    GIVES(cudaGetLastError(), cudaErrorIllegalAddress);
    increment<<<1, 1>>>(x, n);
    GIVES(cudaPeekAtLastError(), cudaErrorIllegalAddress);
    CALL(cudaDeviceReset());
    CALL(cudaMalloc(&y, n * sizeof(int)));
    CALL(cudaMemset(y, 0, n * sizeof(int)));
    increment<<<1, 1>>>(y, n);
    int one = 0;
    CALL(cudaMemcpy(&one, y, sizeof one, cudaMemcpyDeviceToHost));
    printf("after the reset: %d\n", one);
    return 5;
}
