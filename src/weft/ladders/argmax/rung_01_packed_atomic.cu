// rung:   01 packed atomic
// idea:   value and index are packed into one 64-bit integer with the order of the pairs: all
//         blocks combine their results with one atomic per warp
// scratch: best:u64[1]
// launch: start<<<1, 1>>>
// launch: offer<<<min(cdiv(n, 256), 8 * sms), 256>>>
// launch: finish<<<1, 1>>>

// Larger values first, then NaN above all, then the smaller place.
__device__ unsigned long long packed(float v, size_t i) {
    unsigned b = __float_as_uint(v);
    b = v != v ? ~0u : v == 0 ? 0x80000000u : b & 0x80000000u ? ~b : b | 0x80000000u;
    return (static_cast<unsigned long long>(b) << 32) | ~static_cast<unsigned>(i);
}

__global__ void start(unsigned long long* best) { *best = 0; }

__global__ void offer(const float* x, unsigned long long* best, size_t n) {
    unsigned long long most = 0;
    size_t step = size_t(gridDim.x) * 256;
    for (size_t i = size_t(blockIdx.x) * 256 + threadIdx.x; i < n; i += step)
        most = max(most, packed(x[i], i));
    for (int d = 16; d > 0; d /= 2) most = max(most, __shfl_xor_sync(~0u, most, d));
    if (threadIdx.x % 32 == 0) atomicMax(best, most);
}

__global__ void finish(const unsigned long long* best, long long* y) {
    *y = ~static_cast<unsigned>(*best);
}
