// A pipeline of streams fed by threads of the host, NVTX ranges around its stages.
#include <atomic>
#include <cstdio>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <thread>
#include <vector>

__global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

int main() {
    const int workers = 4, rounds = 5, n = 3000;
    std::atomic<int> wrong{0};
    cudaProfilerStart();
    std::vector<std::thread> threads;
    for (int w = 0; w < workers; w++)
        threads.emplace_back([&, w] {
            nvtxRangePushA("worker");
            cudaSetDevice(0);
            cudaStream_t stream;
            cudaStreamCreate(&stream);
            float *x, *y, *dx, *dy;
            cudaMallocHost(&x, n * 4), cudaMallocHost(&y, n * 4);
            cudaMallocAsync(&dx, n * 4, stream), cudaMallocAsync(&dy, n * 4, stream);
            for (int i = 0; i < n; i++) x[i] = i, y[i] = w;
            cudaMemcpyAsync(dx, x, n * 4, cudaMemcpyHostToDevice, stream);
            cudaMemcpyAsync(dy, y, n * 4, cudaMemcpyHostToDevice, stream);
            for (int r = 0; r < rounds; r++)
                saxpy<<<(n + 255) / 256, 256, 0, stream>>>(n, 2.0f, dx, dy);
            cudaMemcpyAsync(y, dy, n * 4, cudaMemcpyDeviceToHost, stream);
            cudaStreamSynchronize(stream);
            for (int i = 0; i < n; i++) wrong += y[i] != w + 2.0f * rounds * i;
            cudaFreeAsync(dx, stream), cudaFreeAsync(dy, stream);
            cudaFreeHost(x), cudaFreeHost(y);
            cudaStreamDestroy(stream);
            wrong += cudaGetLastError() != cudaSuccess;
            nvtxRangePop();
        });
    for (auto &thread : threads) thread.join();
    cudaProfilerStop();
    printf("%d wrong\n", wrong.load());
}
