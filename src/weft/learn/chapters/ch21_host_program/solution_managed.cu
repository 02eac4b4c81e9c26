// One pointer for the host and the device.
#include <cstdio>
#include <cstdlib>

__global__ void change(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 3 * x[i] + 1;
}

int main(int count, char** arguments) {
    int n = count > 1 ? atoi(arguments[1]) : 1000;
    float* x;
    cudaMallocManaged(&x, n * sizeof(float));
    for (int i = 0; i < n; i++) x[i] = i % 8;
    change<<<(n + 255) / 256, 256>>>(x, n);
    // The host must not look before the kernel has ended.
    cudaDeviceSynchronize();
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    cudaFree(x);
    printf("%g\n", sum);
}
