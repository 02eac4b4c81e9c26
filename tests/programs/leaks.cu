// Memory that is not freed, freed twice, and freed though it is not the device's.
#include "check.h"

__global__ void fill(int *x) { x[threadIdx.x] = 1; }

int main(int count, char **) {
    int *kept, *gone, *loop, host = 0;
    CALL(cudaMalloc(&kept, 64 * sizeof(int)));
    CALL(cudaMalloc(&gone, 64 * sizeof(int)));
    fill<<<1, 64>>>(kept);
    CALL(cudaFree(gone));
    if (count > 1) {
        CALL(cudaFree(kept));
        return 0;
    }
    GIVES(cudaFree(gone), cudaErrorInvalidValue);
    GIVES(cudaFree(&host), cudaErrorInvalidValue);
    GIVES(cudaFree(kept + 1), cudaErrorInvalidValue);
    for (int i = 0; i < 3; i++) CALL(cudaMallocManaged(&loop, 1000));
}
