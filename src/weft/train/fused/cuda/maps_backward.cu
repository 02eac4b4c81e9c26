// The gradient of the first maps, and the sums from which the first convolution's gradient follows. The gradient is a convolution of
// the second one's result gradient with flipped filters: products of [pixels][taps x channels] and [taps x channels][maps].
#include "results.cuh"

constexpr int WARPS = 16, THREADS = WARPS * 32, WIDE = SIDE + 2;
constexpr int TILES = (MID + 15) / 16, PAIRS = (TILES + 1) / 2, SHARES = SECOND >= 64 && 2 * PAIRS <= WARPS ? 2 : 1;
static_assert(PAIRS * SHARES <= WARPS, "a warp has two tiles of pixels");

struct alignas(16) Memory {
    union {
        float planes[SECOND * ACROSS + BEYOND];
        float gradient[FIRST * (MID | 1)];      // of the maps, once the planes are read
        float sums[WARPS * 32 * (TAPS + 1)];  // of the first convolution's gradient, at the end
    };
    float weight[TAPS * SECOND * FIRST];
    float image[WIDE * WIDE];
    unsigned char places[FIRST * MID];
    Slope slope[SECOND];
};

__device__ int shared_bytes = sizeof(Memory);

template <bool EXACT>
__global__ void __launch_bounds__(THREADS)
    maps_backward(const float* __restrict__ pixels, const float* __restrict__ raw, const unsigned char* __restrict__ places,
                  const float* __restrict__ map_gradient, const float* __restrict__ packed, const Norm* __restrict__ norms,
                  const float* __restrict__ gain, const float* __restrict__ sums_of_norm, int parts,
                  float* __restrict__ first_parts, int count) {
    extern __shared__ __align__(16) unsigned char bytes[];
    auto& m = *reinterpret_cast<Memory*>(bytes);
    constexpr int COUNT = FIRST / 8, STEP = MID | 1, PAIR = 32 / FIRST;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    for (int i = threadIdx.x; i < TAPS * SECOND * FIRST / 4; i += THREADS) {
        int row = i / (FIRST / 4), column = i % (FIRST / 4) * 4;
        unsigned to = (unsigned)__cvta_generic_to_shared(m.weight + row * FIRST + (column ^ (8 * (row & 3) & (FIRST - 1))));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(packed + 4 * i));
    }
    slopes(norms, gain, sums_of_norm, parts, count, m.slope);
    clear(m.planes, SECOND * ACROSS + BEYOND);
    clear(m.image, WIDE * WIDE);
    // Each pair of tiles has SHARES warps, which share the channels.
    int pair = warp % PAIRS, part = warp / PAIRS;
    bool busy = part < SHARES;
    int at[2][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) at[i / 2][i % 2] = corner(min((pair * 2 + i / 2) * 16 + i % 2 * 8 + group, MID - 1));
    float sums[TAPS + 1] = {};
    int channel = lane % FIRST, share = warp * PAIR + lane / FIRST;
    asm volatile("cp.async.wait_all;");
    for (int n = blockIdx.x; n < count; n += gridDim.x) {
        __syncthreads();
        clear(m.gradient, FIRST * STEP);  // the image before has left its gradient there
        for (int i = threadIdx.x; i < PIXELS; i += THREADS)
            m.image[(i / SIDE + 1) * WIDE + i % SIDE + 1] = pixels[(long long)n * PIXELS + i];
        for (int i = threadIdx.x; i < FIRST * MID / 4; i += THREADS)
            reinterpret_cast<uchar4*>(m.places)[i] = reinterpret_cast<const uchar4*>(places + (long long)n * FIRST * MID)[i];
        __syncthreads();
        result_gradient<EXACT, ACROSS>(raw + (long long)n * SECOND * MID, map_gradient + (long long)n * FLAT, m.slope, m.planes);
        __syncthreads();
        float result[2][COUNT][4] = {};
        if (busy) {
#pragma unroll 1
            for (int tap = 0; tap < TAPS; ++tap)
#pragma unroll
                for (int k0 = part * (SECOND / SHARES); k0 < (part + 1) * (SECOND / SHARES); k0 += 32) {
                    Stage<EXACT, 2, COUNT> stage;
                    stage.begin();
#pragma unroll
                    for (int k = k0; k < k0 + 32; k += 8) {
                        float a[2][4], b[COUNT][2];
#pragma unroll
                        for (int i = 0; i < 2; ++i)
#pragma unroll
                            for (int j = 0; j < 4; ++j)
                                a[i][j] = m.planes[(k + t + j / 2 * 4) * ACROSS + at[i][j % 2] + tap_at(tap)];
#pragma unroll
                        for (int i = 0; i < COUNT; ++i)
#pragma unroll
                            for (int j = 0; j < 2; ++j)
                                b[i][j] = m.weight[(tap * SECOND + k + t + j * 4) * FIRST + ((i * 8) ^ (8 * t & (FIRST - 1))) + group];
                        stage.add(result, a, b);
                    }
                    stage.end(result);
                }
        }
        __syncthreads();
        for (int turn = 0; turn < SHARES; ++turn) {
            if (part == turn) {
#pragma unroll
                for (int i = 0; i < 2; ++i)
#pragma unroll
                    for (int c = 0; c < COUNT; ++c)
#pragma unroll
                        for (int j = 0; j < 4; ++j) {
                            int p = (pair * 2 + i) * 16 + j / 2 * 8 + group;
                            float& to = m.gradient[(c * 8 + t * 2 + j % 2) * STEP + p];
                            if (p < MID) to = turn ? to + result[i][c][j] : result[i][c][j];
                        }
            }
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
        first_parts[blockIdx.x * FIRST * (TAPS + 1) + i] = sum;
    }
}
