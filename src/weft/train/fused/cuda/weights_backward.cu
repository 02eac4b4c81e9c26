// The gradient of the second convolution's weights, of some images: products of [channels][pixels] and [pixels][taps x maps].
#include "results.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;

struct alignas(16) Memory {
    float planes[SECOND * ALONG + BEYOND];
    float maps[FIRST * ALONG + BEYOND];
    Slope slope[SECOND];
};

__device__ int shared_bytes = sizeof(Memory);

// [second][pixels] x [pixels][taps x first]; a warp has 32 channels, and 8 of the maps with all taps
template <bool EXACT>
__global__ void __launch_bounds__(THREADS)
    weights_backward(const float* __restrict__ raw, const float* __restrict__ maps, const float* __restrict__ map_gradient,
                     const Norm* __restrict__ norms, const float* __restrict__ gain, const float* __restrict__ sums_of_norm, int parts,
                     float* __restrict__ second_parts, int count) {
    extern __shared__ __align__(16) unsigned char bytes[];
    auto& m = *reinterpret_cast<Memory*>(bytes);
    constexpr int GROUPS = FIRST / 8, DOWN = 2, TASKS = SECOND / 32 * GROUPS;
    static_assert(TASKS <= WARPS, "each warp has one part of the result");
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    bool busy = warp < TASKS;
    int left = busy ? warp / GROUPS * 32 : 0, right = warp % GROUPS * 8;
    slopes(norms, gain, sums_of_norm, parts, count, m.slope);
    clear(m.planes, SECOND * ALONG + BEYOND);
    clear(m.maps, FIRST * ALONG + BEYOND);
    float sums[DOWN][TAPS][4] = {};
    const float *a_at = m.planes + (left + group) * ALONG + PITCH + 1, *b_at = m.maps + (right + group) * ALONG;
    for (int n = blockIdx.x; n < count; n += gridDim.x) {
        __syncthreads();
        for (int i = threadIdx.x; i < FIRST * MID; i += THREADS)
            m.maps[i / MID * ALONG + corner(i % MID) + PITCH + 1] = maps[(long long)n * FIRST * MID + i];
        result_gradient<EXACT, ALONG>(raw + (long long)n * SECOND * MID, map_gradient + (long long)n * FLAT, m.slope, m.planes);
        __syncthreads();
        Stage<EXACT, DOWN, TAPS> stage;
        stage.begin();
        for (int k = 0; busy && k < MID; k += 8) {
            float a[DOWN][4], b[TAPS][2];
            int p[2] = {corner(k + t), corner(k + t + 4)};
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) a[i][j] = a_at[(i * 16 + j % 2 * 8) * ALONG + p[j / 2]];
#pragma unroll
            for (int i = 0; i < TAPS; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) b[i][j] = b_at[p[j] + tap_at(i)];
            stage.add(sums, a, b);
        }
        stage.end(sums);
    }
    if (!busy) return;
    float* to = second_parts + (long long)blockIdx.x * SECOND * DEPTH;  // [second][taps][first]
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int tap = 0; tap < TAPS; ++tap)
#pragma unroll
            for (int j = 0; j < 2; ++j)
                *reinterpret_cast<float2*>(to + (left + i * 16 + j * 8 + group) * DEPTH + tap * FIRST + right + t * 2) = {
                    sums[i][tap][2 * j], sums[i][tap][2 * j + 1]};
}
