// Kernels of two streams run while the host allocates: each finds the memory that it was given.
#include "check.h"
#include <vector>

__global__ void add(int *x) { x[threadIdx.x] += 1; }

int main() {
    cudaStream_t streams[2];
    std::vector<int *> made;
    int host[32], *x[2];
    for (int i = 0; i < 2; i++) {
        CALL(cudaStreamCreate(&streams[i]));
        CALL(cudaMalloc(&x[i], sizeof host));
        CALL(cudaMemset(x[i], 0, sizeof host));
    }
    for (int step = 0; step < 300; step++) {
        for (int i = 0; i < 2; i++) add<<<1, 32, 0, streams[i]>>>(x[i]);
        int *more;
        CALL(cudaMalloc(&more, 64 + 8 * step));
        made.push_back(more);
    }
    for (int *each : x) {
        CALL(cudaDeviceSynchronize());
        CALL(cudaMemcpy(host, each, sizeof host, cudaMemcpyDeviceToHost));
        HOLDS(host[0] == 300 && host[31] == 300);
        CALL(cudaFree(each));
    }
    for (int *each : made) CALL(cudaFree(each));
    printf("300 launches in each stream\n");
}
