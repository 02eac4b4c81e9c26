// rung:   04 warp shuffle
// idea:   a thread first adds many elements in a register; the 32 sums of a warp are exchanged by
//         shuffles, without shared memory and without barriers
// clear:  y
// launch: reduce<<<min(cdiv(n, 256), 8 * sms), 256>>>

__device__ float warp_sum(float v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    return v;
}

__global__ void reduce(const float* x, float* y, size_t n) {
    __shared__ float part[8];
    float sum = 0;
    size_t step = size_t(gridDim.x) * 256;
    for (size_t i = size_t(blockIdx.x) * 256 + threadIdx.x; i < n; i += step) sum += x[i];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) sum += part[w];
        atomicAdd(y, sum);
    }
}
