// rung:   01 privatised
// idea:   each block counts in shared memory, and adds its counts to global memory once
// clear:  counts
// expect: global atomics per input <= 0.6
// launch: histogram<<<cdiv(n, 2048), 256>>>

__global__ void histogram(const int* x, int* counts, size_t n) {
    __shared__ int mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int k = 0; k < 8; ++k) {
        size_t i = (size_t(blockIdx.x) * 8 + k) * 256 + threadIdx.x;
        if (i < n) atomicAdd(&mine[x[i]], 1);
    }
    __syncthreads();
    if (mine[threadIdx.x]) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}
