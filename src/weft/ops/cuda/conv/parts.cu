// Adds the parts of a gradient of weights, in an order that does not depend on timing.
#include "../vector.cuh"

// A block adds 256 / WARPS neighbouring elements; of their parts, group w of threads adds w, w + WARPS, ... Many groups for many
// parts of few elements. True for the threads that have a sum.
template <int WARPS>
__device__ bool summed(float& sum, long long& at, const float* parts, long long size, int count) {
    constexpr int WIDE = 256 / WARPS;
    __shared__ float sums[WARPS][WIDE];
    int lane = threadIdx.x % WIDE, group = threadIdx.x / WIDE;
    at = blockIdx.x * (long long)WIDE + lane, sum = 0;
    if (at < size)
#pragma unroll 4
        for (int s = group; s < count; s += WARPS) sum += parts[s * size + at];
    if constexpr (WARPS > 1) {
        sums[group][lane] = sum;
        __syncthreads();
        if (group > 0) return false;
#pragma unroll
        for (int w = 1; w < WARPS; ++w) sum += sums[w][lane];
    }
    return at < size;
}

// Parts in the order of the result.
template <class T, int WARPS>
__global__ void __launch_bounds__(256) add_parts(const float* parts, T* out, long long size, int count) {
    float sum;
    long long at;
    if (summed<WARPS>(sum, at, parts, size, count)) out[at] = to<T>(sum);
}

// Parts as [filter][tap][padded channel]; the result is [filter][channel][tap].
template <class T, int WARPS>
__global__ void __launch_bounds__(256) turn_parts(const float* parts, T* out, long long size, int count, int channels, int taps,
                                                  int padded) {
    float sum;
    long long at;
    if (!summed<WARPS>(sum, at, parts, size, count)) return;
    long long rest = at / padded, filter = rest / taps;
    int c = int(at - rest * padded), tap = int(rest - filter * taps);
    if (c < channels) out[(filter * channels + c) * taps + tap] = to<T>(sum);
}
