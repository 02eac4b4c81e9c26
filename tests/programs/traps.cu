// Kernels that end badly: a trap, an assertion, a misaligned access, a deadlock.
#include "check.h"
#include <cassert>
#include <cstring>

__global__ void traps(int *x) {
    if (threadIdx.x == 3) __trap();
    x[threadIdx.x] = 1;
}
__global__ void asserts(int *x) { assert(x[0] == 1); }
__global__ void misaligned(char *x) { *reinterpret_cast<int *>(x + 1) = 1; }
__global__ void waits(volatile int *x) {
    while (x[0] == 0) {
    }
}

int main() {
    struct {
        const char *name;
        void (*kernel)(int *);
        cudaError_t error;
    } rows[] = {{"trap", traps, cudaErrorLaunchFailure},
                {"assert", asserts, cudaErrorAssert},
                {"misaligned", (void (*)(int *))misaligned, cudaErrorMisalignedAddress},
                {"deadlock", (void (*)(int *))waits, cudaErrorLaunchTimeout}};
    for (auto &row : rows) {
        int *x;
        CALL(cudaMalloc(&x, 64 * sizeof(int)));
        CALL(cudaMemset(x, 0, 64 * sizeof(int)));
        row.kernel<<<1, 32>>>(x);
        cudaError_t error = cudaDeviceSynchronize();
        printf("%s: %s\n", row.name, cudaGetErrorName(error));
        HOLDS(error == row.error);
        CALL(cudaDeviceReset());
    }
}
