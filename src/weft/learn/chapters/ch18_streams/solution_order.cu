// A stream fills an array with 1.5, another one adds its elements.
#include <cstdio>
#include <cstdlib>

__global__ void fill(float* x, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) x[i] = 1.5f;
}

__global__ void total(const float* x, float* sum, int n) {
    float mine = 0;
    for (int i = threadIdx.x; i < n; i += 32) mine += x[i];
    for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(~0u, mine, step);
    if (threadIdx.x == 0) *sum = mine;
}

int main(int count, char** arguments) {
    int n = count > 1 ? atoi(arguments[1]) : 1000;
    float *x, *sum, result;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&sum, sizeof(float));
    cudaStream_t first, second;
    cudaStreamCreate(&first);
    cudaStreamCreate(&second);
    cudaEvent_t filled;
    cudaEventCreateWithFlags(&filled, cudaEventDisableTiming);

    fill<<<(n + 255) / 256, 256, 0, first>>>(x, n);
    cudaEventRecord(filled, first);
    cudaStreamWaitEvent(second, filled, 0);
    total<<<1, 32, 0, second>>>(x, sum, n);
    cudaMemcpyAsync(&result, sum, sizeof(float), cudaMemcpyDeviceToHost, second);
    cudaStreamSynchronize(second);
    printf("%g\n", result);

    cudaEventDestroy(filled);
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
    cudaFree(x);
    cudaFree(sum);
}
