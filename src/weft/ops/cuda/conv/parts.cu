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

// Parts as [filter][tap][padded channel]; the result is [filter][channel][tap]. A block turns WIDE channels of a filter in shared
// memory, so that it reads and writes neighbours. Many groups of threads for many parts of few elements.
template <class T, int GROUPS, int WIDE>
__global__ void __launch_bounds__(256) turn_parts(const float* parts, T* out, long long size, int count, int channels, int taps,
                                                  int padded) {
    constexpr int LANES = 256 / GROUPS;
    extern __shared__ float memory[];  // [group][channel][tap]
    int blocks = (padded + WIDE - 1) / WIDE, c0 = blockIdx.x % blocks * WIDE, elements = WIDE * taps;
    long long filter = blockIdx.x / blocks;
    int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    const float* from = parts + filter * taps * padded + c0;
    for (int e0 = lane; e0 < elements; e0 += 4 * LANES) {
        float sums[4] = {};  // four loads are under way at a time
        for (int s = group; s < count; s += GROUPS)
#pragma unroll
            for (int u = 0; u < 4; ++u) {
                int e = e0 + u * LANES, tap = e / WIDE, c = e % WIDE;
                if (e < elements && c0 + c < padded) sums[u] += from[s * size + tap * padded + c];
            }
#pragma unroll
        for (int u = 0; u < 4; ++u) {
            int e = e0 + u * LANES;
            if (e < elements) memory[group * elements + e % WIDE * taps + e / WIDE] = sums[u];
        }
    }
    __syncthreads();
    long long first = (filter * channels + c0) * taps;
    int last = min(WIDE, channels - c0) * taps;
    for (int e = threadIdx.x; e < last; e += 256) {
        float sum = 0;
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) sum += memory[g * elements + e];
        out[first + e] = to<T>(sum);
    }
}
