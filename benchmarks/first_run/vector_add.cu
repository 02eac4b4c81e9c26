#include <cstdio>
#include <cstdlib>

__global__ void add(const float *a, const float *b, float *sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = a[i] + b[i];
}

int main() {
    const int n = 1 << 16;
    const size_t bytes = n * sizeof(float);
    float *host = (float *)malloc(bytes), *a, *b, *sum;
    for (int i = 0; i < n; i++) host[i] = i;
    cudaMalloc(&a, bytes);
    cudaMalloc(&b, bytes);
    cudaMalloc(&sum, bytes);
    cudaMemcpy(a, host, bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(b, host, bytes, cudaMemcpyHostToDevice);
    add<<<n / 256, 256>>>(a, b, sum, n);
    cudaMemcpy(host, sum, bytes, cudaMemcpyDeviceToHost);
    printf("%g\n", host[n - 1]);
    return cudaFree(a) || cudaFree(b) || cudaFree(sum);
}
