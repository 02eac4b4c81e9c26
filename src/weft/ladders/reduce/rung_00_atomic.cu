// rung:   00 atomic
// idea:   every thread adds its element to one address: correct, but all atomics are serialised
// clear:  y
// launch: reduce<<<cdiv(n, 256), 256>>>

__global__ void reduce(const float* x, float* y, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i < n) atomicAdd(y, x[i]);
}
