// rung:   02 coarsened
// idea:   as many blocks as the GPU holds, each with many elements: clearing and adding the counts
//         is amortised over more elements
// clear:  counts
// launch: histogram<<<min(cdiv(n, 256), 8 * sms), 256>>>

__global__ void histogram(const int* x, int* counts, size_t n) {
    __shared__ int mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    size_t step = size_t(gridDim.x) * 256;
    for (size_t i = size_t(blockIdx.x) * 256 + threadIdx.x; i < n; i += step)
        atomicAdd(&mine[x[i]], 1);
    __syncthreads();
    if (mine[threadIdx.x]) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}
