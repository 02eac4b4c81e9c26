// rung:   02 strided tree
// idea:   the active threads are the first ones: whole warps are active or idle. But thread t reads
//         element 2·d·t: with a stride of 32, all are in one bank
// clear:  y
// expect: shared bank conflicts > 0
// launch: reduce<<<cdiv(n, 256), 256>>>

__global__ void reduce(const float* x, float* y, size_t n) {
    __shared__ float part[256];
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        int k = 2 * d * threadIdx.x;
        if (k + d < 256) part[k] += part[k + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(y, part[0]);
}
