// rung:   00 global atomics
// idea:   one thread per element adds one to a count in global memory: all threads of the GPU
//         compete for 256 addresses
// clear:  counts
// expect: global atomics per input = 1
// launch: histogram<<<cdiv(n, 256), 256>>>

__global__ void histogram(const int* x, int* counts, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[x[i]], 1);
}
