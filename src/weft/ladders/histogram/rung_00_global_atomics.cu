// rung:   00 global atomics
// idea:   a thread for each element adds one to its count in memory: all threads of the GPU meet
//         at 256 addresses
// clear:  counts
// expect: global atomics per input = 1
// launch: histogram<<<cdiv(n, 256), 256>>>

__global__ void histogram(const int* x, int* counts, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[x[i]], 1);
}
