// rung:   03 sequential tree
// idea:   the upper half is added to the lower half: the first threads are active, and access
//         adjacent elements
// clear:  y
// expect: shared bank conflicts = 0
// launch: reduce<<<cdiv(n, 256), 256>>>

__global__ void reduce(const float* x, float* y, size_t n) {
    __shared__ float part[256];
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(y, part[0]);
}
