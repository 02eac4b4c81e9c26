// rung:   03 warp copies
// idea:   one copy of the counts per warp: warps no longer conflict, but the lanes of a warp still
//         do, and 32 equal values take 32 steps
// clear:  counts
// launch: histogram<<<min(cdiv(n, 256), 8 * sms), 256>>>

__global__ void histogram(const int* x, int* counts, size_t n) {
    __shared__ int mine[8][256];
    for (int w = 0; w < 8; ++w) mine[w][threadIdx.x] = 0;
    __syncthreads();
    size_t step = size_t(gridDim.x) * 256;
    for (size_t i = size_t(blockIdx.x) * 256 + threadIdx.x; i < n; i += step)
        atomicAdd(&mine[threadIdx.x / 32][x[i]], 1);
    __syncthreads();
    int sum = 0;
    for (int w = 0; w < 8; ++w) sum += mine[w][threadIdx.x];
    if (sum) atomicAdd(&counts[threadIdx.x], sum);
}
