// rung:   04 lane copies
// idea:   one copy of the counts per lane, interleaved: lane l accesses only bank l, so no data
//         causes a conflict, not even a constant. A block needs 32 KiB, for any number of warps
// clear:  counts
// expect: shared atomic wavefronts per request = 1
// launch: histogram<<<min(cdiv(n, 1024), 2 * sms), 1024, 32768>>>

__global__ void __launch_bounds__(1024) histogram(const int* x, int* counts, size_t n) {
    extern __shared__ int mine[];  // [value][lane]
    int lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < 256 * 32; i += blockDim.x) mine[i] = 0;
    __syncthreads();
    size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
        atomicAdd(&mine[x[i] * 32 + lane], 1);
    __syncthreads();
    for (int bin = threadIdx.x / 32; bin < 256; bin += blockDim.x / 32) {
        int sum = __reduce_add_sync(~0u, mine[bin * 32 + lane]);
        if (lane == 0 && sum) atomicAdd(&counts[bin], sum);
    }
}
