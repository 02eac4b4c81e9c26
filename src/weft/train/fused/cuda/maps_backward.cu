// The gradient of the first maps, and the sums from which the first convolution's gradient follows. The gradient is a convolution of
// the second one's result gradient with flipped filters: products of [pixels][taps x channels] and [taps x channels][maps].
#include "net.cuh"

constexpr int WARPS = 16, THREADS = WARPS * 32, WIDE = SIDE + 2, STEP = MID | 1;
constexpr int SHARES = SECOND % 64 == 0 && 2 * PAIRS <= WARPS ? 2 : 1;
static_assert(PAIRS * SHARES <= WARPS, "a warp has two tiles of pixels");

struct alignas(16) Memory {
    float planes[RESULTS], weight[TAPS * SECOND * FIRST];
    union {
        float gradient[FIRST * STEP];         // of the maps
        float sums[WARPS * 32 * (TAPS + 1)];  // of the first convolution's gradient, at the end
    };
    float image[WIDE * WIDE];
    alignas(16) unsigned char places[FIRST * MID];
};
__device__ int shared_bytes = sizeof(Memory);

template <bool EXACT>
__global__ void __launch_bounds__(THREADS)
    maps_backward(const float* __restrict__ pixels, const float* __restrict__ result_gradient, const unsigned char* __restrict__ places,
                  const float* __restrict__ packed, float* __restrict__ first_parts, int count, float scale) {
    extern __shared__ __align__(16) unsigned char bytes[];
    auto& m = *reinterpret_cast<Memory*>(bytes);
    constexpr int COUNT = FIRST / 8, PAIR = 32 / FIRST;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    for (int i = threadIdx.x * 4; i < TAPS * SECOND * FIRST; i += THREADS * 4)
        copy_async<16>(m.weight + (i ^ (8 * (i / FIRST & 3) & (FIRST - 1))), packed + i);  // four rows have different banks
    copy(m.planes, result_gradient + (long long)blockIdx.x * RESULTS, RESULTS);
    clear(m.image, WIDE * WIDE);
    // Each pair of tiles has SHARES warps, which share the channels.
    int pair = warp % PAIRS, part = warp / PAIRS, at[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) at[i] = Pixel(pair * 2 + i, group).corner();
    float sums[TAPS + 1] = {};
    int channel = lane % FIRST, share = warp * PAIR + lane / FIRST;
    for (int n = blockIdx.x; n < count; n += gridDim.x) {
        asm volatile("cp.async.wait_all;");
        __syncthreads();
        for (int i = threadIdx.x; i < PIXELS; i += THREADS)
            copy_async<4>(m.image + (i / SIDE + 1) * WIDE + i % SIDE + 1, pixels + (long long)n * PIXELS + i);
        for (int i = threadIdx.x * 4; i < FIRST * MID; i += THREADS * 4)
            copy_async<4>(m.places + i, places + (long long)n * FIRST * MID + i);
        end_of_group();
        float result[2][COUNT][4] = {};
        if (part < SHARES) {
#pragma unroll 1
            for (int tap = 0; tap < TAPS; ++tap) {
#pragma unroll
                for (int k0 = 0; k0 < SECOND / SHARES; k0 += 32) {
                    const float* a_at = m.planes + plane_at(part * (SECOND / SHARES) + k0 + t) + tap_at(tap);
                    const float* b_at = m.weight + (tap * SECOND + part * (SECOND / SHARES) + k0 + t) * FIRST + group;
                    Stage<EXACT, 2, COUNT> stage;
                    stage.begin();
#pragma unroll
                    for (int k = 0; k < 32; k += 16) {
                        float a[2][2][4], b[2][COUNT][2];
#pragma unroll
                        for (int s = 0; s < 2; ++s) {
#pragma unroll
                            for (int i = 0; i < 2; ++i)
#pragma unroll
                                for (int j = 0; j < 4; ++j) a[s][i][j] = a_at[plane_at(k + 8 * s + j / 2 * 4) - 1 + at[i] + j % 2 * 8];
#pragma unroll
                            for (int i = 0; i < COUNT; ++i)
#pragma unroll
                                for (int j = 0; j < 2; ++j)
                                    b[s][i][j] = b_at[(k + 8 * s + j * 4) * FIRST + ((i * 8) ^ (8 * t & (FIRST - 1)))];
                        }
                        stage.add_16(result, a, b);
                    }
                    stage.end(result);
                }
            }
        }
        __syncthreads();
        if (n + gridDim.x < count) copy(m.planes, result_gradient + (long long)(n + gridDim.x) * RESULTS, RESULTS);
        end_of_group();
        for (int turn = 0; turn < SHARES; ++turn) {
            if (part == turn) {
#pragma unroll
                for (int i = 0; i < 2; ++i)
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        Pixel p(pair * 2 + i, j / 2 * 8 + group);
                        if (p.exists()) {
#pragma unroll
                            for (int c = 0; c < COUNT; ++c) {
                                float& to = m.gradient[(c * 8 + t * 2 + j % 2) * STEP + p.number()];
                                to = turn ? to + result[i][c][j] : result[i][c][j];
                            }
                        }
                    }
            }
            wait_for_copies<1>();
            __syncthreads();
        }
        // Lanes are channels: they read four neighbouring windows of the image at most.
        for (int w = share; w < MID; w += WARPS * PAIR) {
            int place = m.places[channel * MID + w];
            float dz = place == 4 ? 0.0f : m.gradient[channel * STEP + w];
            const float* x = m.image + (w / HALF * 2 + (place >> 1 & 1)) * WIDE + w % HALF * 2 + (place & 1);
#pragma unroll
            for (int tap = 0; tap < TAPS; ++tap) sums[tap] += dz * x[tap / 3 * WIDE + tap % 3];
            sums[TAPS] += dz;
        }
    }
    __syncthreads();
#pragma unroll
    for (int tap = 0; tap <= TAPS; ++tap) m.sums[(share * FIRST + channel) * (TAPS + 1) + tap] = sums[tap];
    __syncthreads();
    for (int i = threadIdx.x; i < FIRST * (TAPS + 1); i += THREADS) {
        float sum = 0;
#pragma unroll
        for (int s = 0; s < WARPS * PAIR; ++s) sum += m.sums[s * FIRST * (TAPS + 1) + i];
        first_parts[blockIdx.x * FIRST * (TAPS + 1) + i] = sum / (scale * WEIGHT_SCALE);
    }
}
