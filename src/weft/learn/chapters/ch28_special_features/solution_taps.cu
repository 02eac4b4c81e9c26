// A filter whose weights are in constant memory: one fetch serves a whole warp.
#include <cstdio>
#include <cstdlib>
#include <vector>

__constant__ int taps[8];

__global__ void filter(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    if (i >= n) return;
    for (int k = 0; k < 8; k++)
        if (i + k < n) sum += taps[k] * x[i + k];
    y[i] = sum;
}

int main(int count, char** arguments) {
    int n = atoi(arguments[1]), seed = atoi(arguments[2]), h_taps[8], *d_x, *d_y;
    std::vector<int> h_x(n);
    for (int i = 0; i < n; i++) h_x[i] = i * seed % 101;
    for (int k = 0; k < 8; k++) h_taps[k] = (k + seed) % 7;
    cudaMalloc(&d_x, n * sizeof(int));
    cudaMalloc(&d_y, n * sizeof(int));
    cudaMemcpy(d_x, h_x.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(taps, h_taps, sizeof h_taps);
    filter<<<(n + 255) / 256, 256>>>(d_x, d_y, n);
    cudaMemcpy(h_x.data(), d_y, n * sizeof(int), cudaMemcpyDeviceToHost);
    int sum = 0;
    for (int v : h_x) sum += v;
    printf("%d\n", sum);
    cudaFree(d_x);
    cudaFree(d_y);
}
