// Adds the parts of a gradient of weights, in an order that does not depend on timing.
#include "vector.cuh"

// A block adds 32 neighbouring elements; warp w adds the parts w, w + 8, ...
template <class T>
__global__ void __launch_bounds__(256) add_parts(const float* parts, T* out, long long size, int count) {
    __shared__ float sums[8][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long at = blockIdx.x * 32ll + lane;
    float sum = 0;
    if (at < size)
#pragma unroll 4
        for (int s = warp; s < count; s += 8) sum += parts[s * size + at];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || at >= size) return;
#pragma unroll
    for (int w = 1; w < 8; ++w) sum += sums[w][lane];
    out[at] = to<T>(sum);
}
