// Reductions, one after the other as a course teaches them, all with the same answer.
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

__global__ void interleaved(const int *in, int *out, int n) {
    extern __shared__ int s[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    for (int k = 1; k < blockDim.x; k *= 2) {
        if (threadIdx.x % (2 * k) == 0) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, s[0]);
}
__global__ void sequential(const int *in, int *out, int n) {
    extern __shared__ int s[];
    int i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
    s[threadIdx.x] = (i < n ? in[i] : 0) + (i + blockDim.x < n ? in[i + blockDim.x] : 0);
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, s[0]);
}
__global__ void shuffled(const int *in, int *out, int n) {
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    for (int k = 16; k > 0; k /= 2) sum += __shfl_down_sync(0xffffffff, sum, k);
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}

int main() {
    const int n = 50001, block = 128;
    std::vector<int> host(n);
    int expected = 0, *in, *out;
    for (int i = 0; i < n; i++) expected += host[i] = (i * 7) % 13 - 5;
    cudaMalloc(&in, n * sizeof(int));
    cudaMalloc(&out, sizeof(int));
    cudaMemcpy(in, host.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    struct {
        const char *name;
        void (*kernel)(const int *, int *, int);
        int blocks;
    } kernels[] = {{"interleaved", interleaved, (n + block - 1) / block},
                   {"sequential", sequential, (n + 2 * block - 1) / (2 * block)},
                   {"shuffled", shuffled, 20}};
    for (auto &k : kernels) {
        int sum = -1;
        cudaMemset(out, 0, sizeof(int));
        k.kernel<<<k.blocks, block, block * sizeof(int)>>>(in, out, n);
        cudaMemcpy(&sum, out, sizeof sum, cudaMemcpyDeviceToHost);
        printf("%-11s %s\n", k.name, sum == expected ? "ok" : "WRONG");
    }
    return cudaDeviceSynchronize();
}
