// A macro that reports failed calls and counts them.
#include <cstdio>
#include <cstdlib>

int failures = 0;

#define TRY(call)                                                         \
    do {                                                                  \
        cudaError_t error = (call);                                       \
        if (error != cudaSuccess) {                                       \
            failures++;                                                   \
            cudaGetLastError(); /* clears it */                           \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                    cudaGetErrorString(error));                           \
        }                                                                 \
    } while (0)

__global__ void increment(int* total) { atomicAdd(total, 1); }

int main(int count, char** arguments) {
    int n = atoi(arguments[1]), even = 0, total, *d_total;
    TRY(cudaMalloc(&d_total, sizeof(int)));
    TRY(cudaMemset(d_total, 0, sizeof(int)));
    for (int k = 1; k <= n; k++) {
        increment<<<1, 128 * k>>>(d_total);
        TRY(cudaGetLastError());
        if (k % 2) TRY(cudaSetDevice(1000));
        else even++;
    }
    TRY(cudaMemcpy(&total, d_total, sizeof(int), cudaMemcpyDeviceToHost));
    TRY(cudaFree(d_total));
    printf("%d\n", total + 100000 * failures + even);
}
