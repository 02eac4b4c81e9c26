// rung:   03 integers
// idea:   the kernel of weft.ops.dropout. Numbers are compared as integers, without a conversion,
//         and a thread has two vectors in flight while it computes their numbers
// expect: load sectors per request = 16
// launch: forward<<<cdiv(n, 2048), 256>>>
// launch: backward<<<cdiv(n, 2048), 256>>>

#include "../../ops/families/random/cuda/dropout.cuh"

// As many subsequences as there are vectors: each has one call.
// From 2^31 - 64 on, uniform(bits) is 1/2.
__device__ void pass(const float* from, float* to, size_t n) {
    drop<4, 2, true>(from, to, PhiloxStart(nullptr, 7, 0), n, ~0u, (1u << 31) - 64, 2.0f);
}

__global__ void __launch_bounds__(256) forward(const float* x, float* y, size_t n) {
    pass(x, y, n);
}
__global__ void __launch_bounds__(256) backward(const float* dy, float* dx, size_t n) {
    pass(dy, dx, n);
}
