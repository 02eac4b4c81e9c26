// Tiled matrix multiplication, timed with events and compared with the host.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

#define TILE 16
#define CHECK(call)                                                                \
    if (cudaError_t e = (call)) {                                                  \
        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); \
        exit(EXIT_FAILURE);                                                        \
    }

__global__ void multiply(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < (K + TILE - 1) / TILE; t++) {
        int ka = t * TILE + threadIdx.x, kb = t * TILE + threadIdx.y;
        a[threadIdx.y][threadIdx.x] = row < M && ka < K ? A[row * K + ka] : 0;
        b[threadIdx.y][threadIdx.x] = col < N && kb < K ? B[kb * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}

int main(int argc, char **argv) {
    int M = argc > 1 ? atoi(argv[1]) : 100, N = 90, K = 110;
    std::vector<float> A(M * K), B(K * N), C(M * N);
    srand(1);
    for (auto &x : A) x = rand() / float(RAND_MAX);
    for (auto &x : B) x = rand() / float(RAND_MAX);
    float *dA, *dB, *dC, ms;
    CHECK(cudaMalloc(&dA, A.size() * 4));
    CHECK(cudaMalloc(&dB, B.size() * 4));
    CHECK(cudaMalloc(&dC, C.size() * 4));
    CHECK(cudaMemcpy(dA, A.data(), A.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dB, B.data(), B.size() * 4, cudaMemcpyHostToDevice));
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    dim3 threads(TILE, TILE), blocks((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
    CHECK(cudaEventRecord(start));
    multiply<<<blocks, threads>>>(dA, dB, dC, M, N, K);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    CHECK(cudaMemcpy(C.data(), dC, C.size() * 4, cudaMemcpyDeviceToHost));
    double worst = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++) sum += double(A[i * K + k]) * B[k * N + j];
            worst = fmax(worst, fabs(sum - C[i * N + j]));
        }
    fprintf(stderr, "%.3f GFLOP/s\n", 2.0 * M * N * K / ms / 1e6);
    printf(worst < 1e-3 && ms > 0 ? "PASSED\n" : "FAILED\n");
    cudaFree(dA), cudaFree(dB), cudaFree(dC);
}
