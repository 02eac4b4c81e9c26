// Adds the parts of a gradient of weights, in an order that does not depend on timing.
#include "../vector.cuh"

// A block adds 32 neighbouring elements; warp w adds the parts w, w + 8, ... True for the lanes that have a sum.
__device__ bool summed(float& sum, long long& at, const float* parts, long long size, int count) {
    __shared__ float sums[8][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    at = blockIdx.x * 32ll + lane, sum = 0;
    if (at < size)
#pragma unroll 4
        for (int s = warp; s < count; s += 8) sum += parts[s * size + at];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || at >= size) return false;
#pragma unroll
    for (int w = 1; w < 8; ++w) sum += sums[w][lane];
    return true;
}

// Parts in the order of the result.
template <class T>
__global__ void __launch_bounds__(256) add_parts(const float* parts, T* out, long long size, int count) {
    float sum;
    long long at;
    if (summed(sum, at, parts, size, count)) out[at] = to<T>(sum);
}

// Parts as [filter][tap][padded channel]; the result is [filter][channel][tap].
template <class T>
__global__ void __launch_bounds__(256) turn_parts(const float* parts, T* out, long long size, int count, int channels, int taps,
                                                  int padded) {
    float sum;
    long long at;
    if (!summed(sum, at, parts, size, count)) return;
    int c = int(at % padded), tap = int(at / padded % taps);
    if (c < channels) out[(at / padded / taps * channels + c) * taps + tap] = to<T>(sum);
}
