// rung:   00 atomic
// idea:   there is no atomic maximum of floats, but the bits of a float can be mapped to integers
//         with the same order: every thread issues one atomic maximum
// scratch: best:u32[1]
// launch: start<<<1, 1>>>
// launch: offer<<<cdiv(n, 256), 256>>>
// launch: finish<<<1, 1>>>

// Ordered as unsigned numbers these bits stand as their floats do; NaN is above all.
__device__ unsigned ordered(float v) {
    unsigned b = __float_as_uint(v);
    if (v != v) return ~0u;
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}

__device__ float back(unsigned b) {
    if (b == ~0u) return __uint_as_float(0x7fc00000u);
    return __uint_as_float(b & 0x80000000u ? b & 0x7fffffffu : ~b);
}

__global__ void start(unsigned* best) { *best = 0; }

__global__ void offer(const float* x, unsigned* best, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i < n) atomicMax(best, ordered(x[i]));
}

__global__ void finish(const unsigned* best, float* y) { *y = back(*best); }
