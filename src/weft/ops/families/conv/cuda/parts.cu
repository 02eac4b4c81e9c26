// Adds the parts of a gradient of weights, in an order that does not depend on timing.
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>

using namespace weft;

// A thread has EACH neighbouring elements, which divides `size`; of their parts, group g of threads
// adds g, g + GROUPS, ... Many groups for many parts of few elements.
template <class T, int GROUPS, int EACH>
__global__ void __launch_bounds__(256)
    add_parts(const float* parts, T* out, long long size, int count) {
    constexpr int LANES = 256 / GROUPS;
    using Sums = Vector<float, EACH>;
    __shared__ Sums sums[GROUPS][LANES];
    int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    long long at = (blockIdx.x * (long long)LANES + lane) * EACH;
    Sums sum = {};
    start_next_kernel();
    wait_for_kernels();
    auto add = [&](const Sums& v) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) sum[j] += v[j];
    };
    if (at < size)
#pragma unroll 4
        for (int s = group; s < count; s += GROUPS) add(load<EACH>(parts + s * size + at));
    if constexpr (GROUPS > 1) {
        sums[group][lane] = sum;
        __syncthreads();
        if (group > 0) return;
#pragma unroll
        for (int g = 1; g < GROUPS; ++g) add(sums[g][lane]);
    }
    Vector<T, EACH> v;
#pragma unroll
    for (int j = 0; j < EACH; ++j) v[j] = to<T>(sum[j]);
    if (at < size) store(out + at, v);
}

// Parts as [filter][tap][padded channel]; the result is [filter][channel][tap]. A block transposes
// WIDE channels of a filter in shared memory, so that it reads and writes vectors of neighbours.
// Many groups of threads for many parts of few elements.
template <class T, int GROUPS, int WIDE>
__global__ void __launch_bounds__(256)
    transpose_parts(const float* parts, T* out, long long size, int count, int channels, int taps,
                    int padded) {
    constexpr int LANES = 256 / GROUPS, FOURS = WIDE / 4, EACH = 16 / sizeof(T);
    extern __shared__ __align__(16) float memory[];  // [group][channel][tap]
    int blocks = (padded + WIDE - 1) / WIDE, c0 = blockIdx.x % blocks * WIDE,
        elements = WIDE * taps;
    long long filter = blockIdx.x / blocks;
    int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    const float* from = parts + filter * taps * padded + c0;
    start_next_kernel();
    wait_for_kernels();
    for (int e = lane; e < FOURS * taps; e += LANES) {
        int tap = e / FOURS, c = e % FOURS * 4;
        float4 sum = {};
        if (c0 + c < padded)
#pragma unroll 4
            for (int s = group; s < count; s += GROUPS) {
                float4 v = *reinterpret_cast<const float4*>(from + s * size + tap * padded + c);
                sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
            }
        float* to_channel = memory + group * elements + c * taps + tap;
        to_channel[0] = sum.x, to_channel[taps] = sum.y, to_channel[2 * taps] = sum.z,
        to_channel[3 * taps] = sum.w;
    }
    __syncthreads();
    auto sum = [&](int e) {
        float all = 0;
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) all += memory[g * elements + e];
        return all;
    };
    long long first = (filter * channels + c0) * taps;
    int last = min(WIDE, channels - c0) * taps;
    if (first % EACH == 0 && last % EACH == 0) {
        for (int e = threadIdx.x * EACH; e < last; e += 256 * EACH) {
            Vector<T, EACH> v;
#pragma unroll
            for (int j = 0; j < EACH; ++j) v[j] = to<T>(sum(e + j));
            store(out + first + e, v);
        }
    } else {
        for (int e = threadIdx.x; e < last; e += 256) out[first + e] = to<T>(sum(e));
    }
}
