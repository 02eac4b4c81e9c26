// n log n steps by a plan, and n * n by the definition.
#include <cstdio>
#include <cstdlib>
#include <cufft.h>
#include <vector>

__global__ void transform(const float2* x, float2* y, int n) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    float2 sum = {0, 0};
    for (int j = 0; j < n; j++) {
        float s, c;
        sincospif(-2.0f * (j * k % n) / n, &s, &c);
        sum.x += x[j].x * c - x[j].y * s;
        sum.y += x[j].x * s + x[j].y * c;
    }
    y[k] = sum;
}

int main(int count, char** arguments) {
    int n = atoi(arguments[1]);
    std::vector<float2> h_x(n), h_y(n);
    for (int j = 0; j < n; j++) h_x[j] = {float(j * 7 % 11 - 5), float(j * 3 % 13 - 6)};
    float2 *d_x, *d_y, *d_z;
    cudaMalloc(&d_x, n * sizeof(float2));
    cudaMalloc(&d_y, n * sizeof(float2));
    cudaMalloc(&d_z, n * sizeof(float2));
    cudaMemcpy(d_x, h_x.data(), n * sizeof(float2), cudaMemcpyHostToDevice);

    cufftHandle plan;
    if (cufftPlan1d(&plan, n, CUFFT_C2C, 1) != CUFFT_SUCCESS) return 1;
    if (cufftExecC2C(plan, d_x, d_y, CUFFT_FORWARD) != CUFFT_SUCCESS) return 1;
    transform<<<(n + 63) / 64, 64>>>(d_x, d_z, n);

    cudaMemcpy(h_x.data(), d_y, n * sizeof(float2), cudaMemcpyDeviceToHost);
    cudaMemcpy(h_y.data(), d_z, n * sizeof(float2), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (int k = 0; k < n; k++)
        sum += (k + 1.0) * (double(h_x[k].x) * h_y[k].x + double(h_x[k].y) * h_y[k].y) / n;
    printf("%.9g\n", sum);
    cufftDestroy(plan);
    cudaFree(d_x), cudaFree(d_y), cudaFree(d_z);
}
