// Events and the time between them.
#include "check.h"

__global__ void spin(int *x, int turns) {
    for (int i = 0; i < turns; i++) atomicAdd(x, i);
}

int main() {
    int *x;
    CALL(cudaMalloc(&x, sizeof(int)));
    CALL(cudaMemset(x, 0, sizeof(int)));
    cudaEvent_t begin, end, untimed, never;
    CALL(cudaEventCreate(&begin));
    CALL(cudaEventCreate(&end));
    CALL(cudaEventCreate(&never));
    CALL(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    CALL(cudaEventRecord(begin));
    spin<<<8, 64>>>(x, 100);
    CALL(cudaEventRecord(end));
    CALL(cudaEventRecord(untimed));
    CALL(cudaEventSynchronize(end));
    CALL(cudaEventQuery(end));
    float ms = -1;
    CALL(cudaEventElapsedTime(&ms, begin, end));
    HOLDS(ms > 0);
    CALL(cudaEventElapsedTime(&ms, begin, end));
    GIVES(cudaEventElapsedTime(&ms, begin, untimed), cudaErrorInvalidResourceHandle);
    GIVES(cudaEventElapsedTime(&ms, begin, never), cudaErrorInvalidResourceHandle);
    int sum;
    CALL(cudaMemcpy(&sum, x, sizeof sum, cudaMemcpyDeviceToHost));
    printf("sum %d\n", sum);
    CALL(cudaEventDestroy(begin));
    GIVES(cudaEventDestroy(begin), cudaErrorInvalidResourceHandle);
}
