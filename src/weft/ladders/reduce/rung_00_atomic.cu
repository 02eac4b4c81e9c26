// rung:   00 atomic
// idea:   every thread adds its element to one address: right, and all of them wait in one line
// clear:  y
// launch: reduce<<<cdiv(n, 256), 256>>>

__global__ void reduce(const float* x, float* y, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i < n) atomicAdd(y, x[i]);
}
