// The gradient of the second convolution's weights, of some images: products of [channels][pixels] and [pixels][taps x maps].
#include "net.cuh"

// A warp has 16 or 32 channels, and 8 of the maps with all taps.
template <bool EXACT>
struct Shape {
    static constexpr int DOWN = EXACT ? 1 : 2, GROUPS = FIRST / 8, THREADS = SECOND / 16 / DOWN * GROUPS * 32;
    // One block of an SM copies the next image while it multiplies; with less to multiply, two blocks take turns.
    static constexpr int BUFFERS = EXACT ? 2 : 1, BLOCKS = EXACT ? 1 : 2;
};

struct alignas(16) Image {
    float results[RESULTS], maps[MAPS];
};
__device__ int shared_bytes[2] = {sizeof(Image) * Shape<false>::BUFFERS, sizeof(Image) * Shape<true>::BUFFERS};
__device__ int threads[2] = {Shape<false>::THREADS, Shape<true>::THREADS};

template <bool EXACT>
__global__ void __launch_bounds__(Shape<EXACT>::THREADS, Shape<EXACT>::BLOCKS)
    weights_backward(const float* __restrict__ gradient, const float* __restrict__ maps, float* __restrict__ second_parts, int count, float scale) {
    extern __shared__ __align__(16) unsigned char bytes[];
    using S = Shape<EXACT>;
    constexpr int DOWN = S::DOWN, STAGE = 48;
    auto* images = reinterpret_cast<Image*>(bytes);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    int left = warp / S::GROUPS * DOWN * 16, right = warp % S::GROUPS * 8;
    auto fetch = [&](int n, int buffer) {
        if (n < count) {
            copy(images[buffer].results, gradient + (long long)n * RESULTS, RESULTS);
            copy(images[buffer].maps, maps + (long long)n * MAPS, MAPS);
        }
        end_of_group();
    };
    float sums[DOWN][TAPS][4] = {};
    fetch(blockIdx.x, 0);
    int buffer = 0;
    for (int n = blockIdx.x; n < count; n += gridDim.x) {
        if (S::BUFFERS == 2) fetch(n + gridDim.x, 1 - buffer);
        wait_for_copies<S::BUFFERS - 1>();
        __syncthreads();
        const float *a_at = images[buffer].results + plane_at(left + group) + PITCH + 1, *b_at = images[buffer].maps + plane_at(right + group);
#pragma unroll 1
        for (int begin = 0; begin < MID; begin += STAGE) {
            Stage<EXACT, DOWN, TAPS> stage;
            stage.begin();
#pragma unroll
            for (int k = begin; k < begin + STAGE; k += 16) {
                if (k >= MID) break;
                float a[2][DOWN][4], b[2][TAPS][2];
#pragma unroll
                for (int s = 0; s < 2; ++s) {
                    int p[2] = {corner(k + 8 * s + t), corner(k + 8 * s + t + 4)};
#pragma unroll
                    for (int i = 0; i < DOWN; ++i)
#pragma unroll
                        for (int j = 0; j < 4; ++j) a[s][i][j] = a_at[plane_at(i * 16 + j % 2 * 8) - 1 + p[j / 2]];
#pragma unroll
                    for (int i = 0; i < TAPS; ++i)
#pragma unroll
                        for (int j = 0; j < 2; ++j) b[s][i][j] = b_at[p[j] + tap_at(i)];
                }
                stage.add_16(sums, a, b);
            }
            stage.end(sums);
        }
        __syncthreads();
        if (S::BUFFERS == 1) fetch(n + gridDim.x, 0);
        else buffer = 1 - buffer;
    }
    float* to = second_parts + (long long)blockIdx.x * SECOND * DEPTH;  // [second][taps][first]
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int tap = 0; tap < TAPS; ++tap)
#pragma unroll
            for (int j = 0; j < 2; ++j)
                *reinterpret_cast<float2*>(to + (left + i * 16 + j * 8 + group) * DEPTH + tap * FIRST + right + t * 2) = {
                    sums[i][tap][2 * j] / scale, sums[i][tap][2 * j + 1] / scale};
}
