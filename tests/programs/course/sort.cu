// Bitonic sort, a prefix sum and a transpose: three classics on one array.
#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

__global__ void bitonic(int *x, int j, int k) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ j;
    if (other > i && ((i & k) == 0) == (x[i] > x[other])) {
        int t = x[i];
        x[i] = x[other], x[other] = t;
    }
}
__global__ void scan(int *x) {  // one block, Hillis and Steele
    __shared__ int s[2][1024];
    int t = threadIdx.x, now = 0;
    s[0][t] = x[t];
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2, now ^= 1) {
        s[now ^ 1][t] = s[now][t] + (t >= d ? s[now][t - d] : 0);
        __syncthreads();
    }
    x[t] = s[now][t];
}
__global__ void transpose(const int *in, int *out, int n) {
    __shared__ int tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32;
    for (int k = threadIdx.y; k < 32; k += 8) tile[k][threadIdx.x] = in[(y + k) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32;
    for (int k = threadIdx.y; k < 32; k += 8) out[(y + k) * n + x] = tile[threadIdx.x][k];
}

int main() {
    const int n = 1024;
    std::vector<int> host(n), sorted, back(n);
    for (int i = 0; i < n; i++) host[i] = (i * 8191) % 4001 - 2000;
    int *x, *y;
    cudaMalloc(&x, n * sizeof(int));
    cudaMalloc(&y, n * sizeof(int));
    cudaMemcpy(x, host.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    for (int k = 2; k <= n; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) bitonic<<<n / 256, 256>>>(x, j, k);
    cudaMemcpy(back.data(), x, n * sizeof(int), cudaMemcpyDeviceToHost);
    sorted = host;
    std::sort(sorted.begin(), sorted.end());
    printf("sorted: %s\n", back == sorted ? "yes" : "no");
    scan<<<1, n>>>(x);
    transpose<<<dim3(1, 1), dim3(32, 8)>>>(x, y, 32);
    cudaMemcpy(back.data(), y, n * sizeof(int), cudaMemcpyDeviceToHost);
    int sum = 0;
    bool right = true;
    for (int i = 0; i < n; i++) sum += sorted[i], right &= back[i % 32 * 32 + i / 32] == sum;
    printf("scanned and turned: %s\n", right ? "yes" : "no");
    return cudaGetLastError();
}
