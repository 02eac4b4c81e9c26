// The squares of n numbers: to the device, through a kernel, and back.
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        cudaError_t error = (call);                                                        \
        if (error != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

__global__ void square(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= x[i];
}

int main(int count, char** arguments) {
    int n = count > 1 ? atoi(arguments[1]) : 1000;
    std::vector<float> h_x(n);
    for (int i = 0; i < n; i++) h_x[i] = i % 10;

    float* d_x;
    size_t bytes = n * sizeof(float);
    CHECK(cudaMalloc(&d_x, bytes));
    CHECK(cudaMemcpy(d_x, h_x.data(), bytes, cudaMemcpyHostToDevice));
    square<<<(n + 255) / 256, 256>>>(d_x, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(h_x.data(), d_x, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d_x));

    double sum = 0;
    for (float v : h_x) sum += v;
    printf("%g\n", sum);
}
