// histogram: how often each byte occurs.
// Blocks count into shared memory, where atomics of different threads meet often, and then add
// their 256 counts to the result with one global atomic each.
// grid: any   block: 256

__global__ void histogram(const unsigned char* x, unsigned int* counts, int n) {
    __shared__ unsigned int mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[x[i]], 1u);
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}
