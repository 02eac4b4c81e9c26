// rung:   01 interleaved tree
// idea:   a block adds its 256 elements in shared memory as a tree, adjacent pairs first; one
//         atomic per block. The active threads move further and further apart: warps are half idle
// clear:  y
// expect: branch divergence > 0
// launch: reduce<<<cdiv(n, 256), 256>>>

__global__ void reduce(const float* x, float* y, size_t n) {
    __shared__ float part[256];
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        if (threadIdx.x % (2 * d) == 0) part[threadIdx.x] += part[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(y, part[0]);
}
