// cuBLAS sees transposes: it computes C' = B' A', which is C in rows.
#include <cstdio>
#include <cstdlib>
#include <cublas_v2.h>
#include <vector>

__global__ void multiply(const float* a, const float* b, float* d, int m, int n, int k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m * n) return;
    float sum = 0;
    for (int e = 0; e < k; e++) sum += a[i / n * k + e] * b[e * n + i % n];
    d[i] = sum;
}

int main(int count, char** arguments) {
    int m = atoi(arguments[1]), n = atoi(arguments[2]), k = atoi(arguments[3]);
    std::vector<float> h_a(m * k), h_b(k * n), h_c(m * n), h_d(m * n);
    for (int i = 0; i < m * k; i++) h_a[i] = i % 7 - 3;
    for (int i = 0; i < k * n; i++) h_b[i] = i % 5 - 2;
    float *d_a, *d_b, *d_c, *d_d;
    cudaMalloc(&d_a, m * k * sizeof(float));
    cudaMalloc(&d_b, k * n * sizeof(float));
    cudaMalloc(&d_c, m * n * sizeof(float));
    cudaMalloc(&d_d, m * n * sizeof(float));
    cudaMemcpy(d_a, h_a.data(), m * k * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_b, h_b.data(), k * n * sizeof(float), cudaMemcpyHostToDevice);

    cublasHandle_t handle;
    cublasCreate(&handle);
    float one = 1, zero = 0;
    cublasStatus_t status =
        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, d_b, n, d_a, k, &zero, d_c, n);
    if (status != CUBLAS_STATUS_SUCCESS) return 1;
    multiply<<<(m * n + 127) / 128, 128>>>(d_a, d_b, d_d, m, n, k);

    cudaMemcpy(h_c.data(), d_c, m * n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(h_d.data(), d_d, m * n * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (int i = 0; i < m * n; i++) sum += (i + 1.0) * h_c[i] * h_d[i];
    printf("%.9g\n", sum);
    cublasDestroy(handle);
    cudaFree(d_a), cudaFree(d_b), cudaFree(d_c), cudaFree(d_d);
}
