// The derivative of softmax over rows: dx = y * (grad - sum(y * grad)). A row is a block's.

#include <cuda_bf16.h>

__device__ float block_sum(float v) {
    __shared__ float part[32];
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    if (blockDim.x == 32) return v;
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : 0.0f;
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    return v;
}

template <class T>
__global__ void softmax_backward(const T* __restrict__ y, const T* __restrict__ grad,
                                 T* __restrict__ dx, int n) {
    size_t row = size_t(blockIdx.x) * n;
    float dot = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) dot += float(y[row + i]) * float(grad[row + i]);
    dot = block_sum(dot);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        dx[row + i] = T(float(y[row + i]) * (float(grad[row + i]) - dot));
}
