// The second convolution, backward, and the sums from which the first one's gradient follows. For
// each image a block computes the gradient of the second convolution's results into shared memory
// and multiplies it twice:
//   [channels][pixels] x [pixels][taps x maps] is the gradient of the weights,
//   [pixels][taps x channels] x [taps x channels][maps], with flipped filters, is the gradient of
//   the maps.
// With two roles, one block of an image computes the first product and another the second.
#include "net.cuh"

constexpr int WIDE = SIDE + 2;

template <bool EXACT>
struct Shape {
    // A warp has 16 or 32 channels, and 8 of the maps with all taps; or two rows of pixels, all
    // maps and a share of the channels.
    static constexpr int DOWN = EXACT ? 1 : 2, SHARES = EXACT ? 2 : 1;
    static constexpr int UNITS = SECOND / 16 / DOWN * (FIRST / 8), TILES = PAIRS * SHARES;
    static constexpr int WARPS = UNITS > TILES ? UNITS : TILES, THREADS = WARPS * 32,
                         BLOCKS = EXACT ? 1 : 2;
    static constexpr int RESULT = line<EXACT>(SECOND), MAP = line<EXACT>(FIRST);
};
static_assert(SECOND >= 2 * FIRST, "the gradient of the maps fits where that of the results was");

// gradient = own * dz + rest + slope * y, times a scale
struct alignas(16) Slope {
    float own, rest, slope, sign;
};

template <bool EXACT>
struct alignas(16) Memory {
    union alignas(16) {
        Half results[POSITIONS * Shape<EXACT>::RESULT];  // gradients; those of the maps come into
                                                         // the same lines
        float sums[Shape<EXACT>::WARPS * 32 *
                   (TAPS + 1)];  // of the first convolution's gradient, at the end
    };
    Half maps[POSITIONS * Shape<EXACT>::MAP];
    unsigned weight[TAPS * SECOND * FIRST * PIECES<EXACT> / 2];
    Slope slope[SECOND];
    float image[WIDE * WIDE];
    alignas(16) unsigned char places[FIRST * MID];
};
__device__ int shared_bytes[2] = {sizeof(Memory<false>), sizeof(Memory<true>)};
__device__ int threads[2] = {Shape<false>::THREADS, Shape<true>::THREADS};

__device__ void slopes(const Norm* __restrict__ norms, const float* __restrict__ gain,
                       const float* __restrict__ sums, int parts, int count, float scale,
                       Slope* slope) {
    for (int c = threadIdx.x; c < SECOND; c += blockDim.x) {
        double n = (double)count * MID;
        double2 sum = sums_of_channel(sums, parts, c);
        Norm at = norms[c];
        double own = (double)gain[c] * at.inverse, steep = -own * at.inverse * sum.y / n;
        slope[c] = {scale * (float)own, scale * (float)(-own * sum.x / n - steep * at.mean),
                    scale * (float)steep, sign_of(gain[c])};
    }
}

// The gradient of an image's results: the pooled maps' gradient through pooling and batch norm. Of
// four pixels one has an own part.
template <bool EXACT>
__device__ void results(const float* __restrict__ raw, const float* __restrict__ map_gradient,
                        const Slope* slope, Half* to) {
    constexpr int LINE = Shape<EXACT>::RESULT;
    // A thread has 4 channels of a window; 4 threads are neighbours in channels, then in windows.
#pragma unroll 1
    for (int i = threadIdx.x; i < WINDOWS * SECOND / 4; i += Shape<EXACT>::THREADS) {
        int w = i / 4 % WINDOWS, c = i / (4 * WINDOWS) * 16 + i % 4 * 4, row = w / QUARTER * 2,
            column = w % QUARTER * 2;
        const float* from = raw + (row * HALF + column) * SECOND + c;
        float y[4][4], dz[4];
        int place[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            float4 x = *reinterpret_cast<const float4*>(from + (k / 2 * HALF + k % 2) * SECOND);
            y[k][0] = x.x, y[k][1] = x.y, y[k][2] = x.z, y[k][3] = x.w;
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) dz[j] = map_gradient[(c + j) * WINDOWS + w];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float sign = slope[c + j].sign;
            place[j] = Pooled(sign * y[0][j], sign * y[1][j], sign * y[2][j], sign * y[3][j]).place;
            dz[j] *= slope[c + j].own;
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            float g[4];
#pragma unroll
            for (int j = 0; j < 4; ++j)
                g[j] = (place[j] == k ? dz[j] : 0.0f) +
                       fmaf(slope[c + j].slope, y[k][j], slope[c + j].rest);
            store_pieces<EXACT, SECOND>(to + position(row + k / 2, column + k % 2) * LINE + c,
                                        {g[0], g[1], g[2], g[3]});
        }
    }
}

template <bool EXACT>
__global__ void __launch_bounds__(Shape<EXACT>::THREADS, Shape<EXACT>::BLOCKS)
    backward(const float* __restrict__ pixels, const float* __restrict__ raw,
             const float* __restrict__ map_gradient, const Half* __restrict__ maps,
             const unsigned char* __restrict__ places, const unsigned* __restrict__ packed,
             const Norm* __restrict__ norms, const float* __restrict__ gain,
             const float* __restrict__ sums_of_norm, int parts, float* __restrict__ first_parts,
             float* __restrict__ second_parts, int count, float scale, int roles) {
    extern __shared__ __align__(16) unsigned char bytes[];
    using S = Shape<EXACT>;
    constexpr int THREADS = S::THREADS, WARPS = S::WARPS, DOWN = S::DOWN, COUNT = FIRST / 8;
    auto& m = *reinterpret_cast<Memory<EXACT>*>(bytes);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    int slot = blockIdx.x / roles, slots = gridDim.x / roles,
        role = roles == 1 ? 2 : blockIdx.x % 2;
    bool for_weights = role != 1, for_maps = role != 0;
    auto fetch_maps = [&](int n) {
        constexpr int CHUNKS = FIRST * PIECES<EXACT> / 8;
        if (for_weights && n < count)
            for (int i = threadIdx.x; i < MID * CHUNKS; i += THREADS) {
                int p = i / CHUNKS;
                weft::copy_async<16>(
                    m.maps + position(p / HALF, p % HALF) * S::MAP + i % CHUNKS * 8,
                    maps + ((long long)n * MID * CHUNKS + i) * 8);
            }
        weft::commit_copies();
    };
    clear(reinterpret_cast<unsigned*>(m.results), POSITIONS * S::RESULT / 2);
    clear(reinterpret_cast<unsigned*>(m.maps), POSITIONS * S::MAP / 2);
    clear(m.image, WIDE * WIDE);
    if (for_maps)
        for (int i = threadIdx.x * 4; i < TAPS * SECOND * FIRST * PIECES<EXACT> / 2;
             i += THREADS * 4)
            weft::copy_async<16>(m.weight + i, packed + i);
    slopes(norms, gain, sums_of_norm, parts, count, scale, m.slope);
    __syncthreads();
    fetch_maps(slot);
    // Lanes have addresses of rows of matrices. The first product's operands are stored with rows
    // of pixels: both are turned.
    int left = warp / COUNT * DOWN * 16, right = warp % COUNT * 8, pair = warp % PAIRS,
        share = warp / PAIRS;
    unsigned down = weft::shared_address(
        m.results + (PITCH + 1 + lane % 8 + lane / 16 * 8) * S::RESULT + left + lane / 8 % 2 * 8);
    unsigned across =
        weft::shared_address(m.maps + lane % 16 * S::MAP + right + (EXACT ? lane / 16 * FIRST : 0));
    unsigned rows = weft::shared_address(m.results + (pair * 2 * PITCH + lane % 16) * S::RESULT +
                                         share * (SECOND / S::SHARES) + lane / 16 * 8);
    const unsigned* filters = m.weight +
                              share * (SECOND / S::SHARES / 16) * COUNT * 32 * PACKED<EXACT> +
                              lane * PACKED<EXACT>;
    float sums[DOWN][TAPS][4] = {}, first[TAPS + 1] = {};
    for (int n = slot; n < count; n += slots) {
        results<EXACT>(raw + (long long)n * MID * SECOND, map_gradient + (long long)n * FLAT,
                       m.slope, m.results);
        if (for_maps) {
            for (int i = threadIdx.x; i < PIXELS; i += THREADS)
                weft::copy_async<4>(m.image + (i / SIDE + 1) * WIDE + i % SIDE + 1,
                                    pixels + (long long)n * PIXELS + i);
            for (int i = threadIdx.x * 16; i < FIRST * MID; i += THREADS * 16)
                weft::copy_async<16>(m.places + i, places + (long long)n * FIRST * MID + i);
        }
        weft::commit_copies();
        weft::wait_copies<1>();
        __syncthreads();
        if (n + slots < count) {  // into the second cache, as it is read next
            const float* next = raw + (long long)(n + slots) * MID * SECOND;
            for (int i = threadIdx.x * 32; i < MID * SECOND; i += THREADS * 32)
                asm volatile("prefetch.global.L2 [%0];" ::"l"(next + i));
        }
        if (for_weights && warp < S::UNITS) {
            constexpr int DEEP = (HALF * PITCH + 15) / 16, STAGE = DEEP % 2 ? 1 : 2;
            int deep = DEEP;
            weft::opaque(deep);  // a compiler that knows it unrolls the loop, and needs more
                                 // registers than there are
#pragma unroll 1
            for (int begin = 0; begin < deep; begin += STAGE) {
                Stage<EXACT, DOWN, TAPS> stage;
                stage.begin();
#pragma unroll
                for (int k = begin; k < begin + STAGE; ++k) {
                    unsigned a[DOWN][PIECES<EXACT>][4], b[3][PACKED<EXACT>];
#pragma unroll
                    for (int i = 0; i < DOWN; ++i)
#pragma unroll
                        for (int p = 0; p < PIECES<EXACT>; ++p)
                            load_matrices<true>(a[i][p],
                                                down + (k * 16 * S::RESULT + p * SECOND + i * 16) *
                                                           (int)sizeof(Half));
#pragma unroll
                    for (int tap = 0; tap < TAPS; tap += 3) {
#pragma unroll
                        for (int i = 0; i < 3; ++i)
                            load_matrices<true>(b[i], across + (k * 16 + tap_at(tap + i)) * S::MAP *
                                                                   (int)sizeof(Half));
                        stage.add(sums, a, b, tap);
                    }
                }
                stage.end(sums);
            }
        }
        float result[2][COUNT][4] = {};
        if (for_maps && share < S::SHARES) {
#pragma unroll 1
            for (int tap = 0; tap < TAPS; ++tap) {
                Stage<EXACT, 2, COUNT> stage;
                stage.begin();
#pragma unroll
                for (int k = 0; k < SECOND / S::SHARES / 16; ++k) {
                    unsigned a[2][PIECES<EXACT>][4], b[COUNT][PACKED<EXACT>];
#pragma unroll
                    for (int i = 0; i < 2; ++i)
#pragma unroll
                        for (int p = 0; p < PIECES<EXACT>; ++p)
                            load_matrices<false>(a[i][p],
                                                 rows + ((i * PITCH + tap_at(tap)) * S::RESULT +
                                                         p * SECOND + k * 16) *
                                                            (int)sizeof(Half));
#pragma unroll
                    for (int i = 0; i < COUNT; ++i)
                        load_packed<EXACT>(b[i], filters + ((tap * (SECOND / 16) + k) * COUNT + i) *
                                                               32 * PACKED<EXACT>);
                    stage.add(result, a, b);
                }
                stage.end(result);
            }
        }
        __syncthreads();
        fetch_maps(n + slots);
        if (!for_maps) continue;
        if (share < S::SHARES) {
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int h = 0; h < 2; ++h)
                    if (h * 8 + group < HALF) {
                        auto* to =
                            reinterpret_cast<float*>(
                                m.results + position(pair * 2 + i, h * 8 + group) * S::RESULT) +
                            share * FIRST + t * 2;
#pragma unroll
                        for (int c = 0; c < COUNT; ++c)
                            *reinterpret_cast<float2*>(to + c * 8) = {result[i][c][2 * h],
                                                                      result[i][c][2 * h + 1]};
                    }
        }
        weft::wait_copies<1>();
        __syncthreads();
        // Lanes are channels: they read four neighbouring windows of the image at most.
        constexpr int PER_WARP = 32 / FIRST;
        int channel = lane % FIRST;
        for (int w = warp * PER_WARP + lane / FIRST; w < MID; w += WARPS * PER_WARP) {
            int place = m.places[channel * MID + w];
            auto* from = reinterpret_cast<const float*>(m.results +
                                                        position(w / HALF, w % HALF) * S::RESULT) +
                         channel;
            float dz = from[0];
            if (S::SHARES == 2) dz += from[FIRST];
            if (place == 4) dz = 0;
            const float* x =
                m.image + (w / HALF * 2 + (place >> 1 & 1)) * WIDE + w % HALF * 2 + (place & 1);
#pragma unroll
            for (int tap = 0; tap < TAPS; ++tap) first[tap] += dz * x[tap / 3 * WIDE + tap % 3];
            first[TAPS] += dz;
        }
        __syncthreads();
    }
    if (for_weights && warp < S::UNITS) {
        float* to = second_parts + (long long)slot * SECOND * DEPTH;  // [second][taps][first]
#pragma unroll
        for (int i = 0; i < DOWN; ++i)
#pragma unroll
            for (int tap = 0; tap < TAPS; ++tap)
#pragma unroll
                for (int j = 0; j < 2; ++j)
                    *reinterpret_cast<float2*>(to + (left + i * 16 + j * 8 + group) * DEPTH +
                                               tap * FIRST + right + t * 2) = {
                        sums[i][tap][2 * j] / scale, sums[i][tap][2 * j + 1] / scale};
    }
    if (!for_maps) return;
#pragma unroll
    for (int tap = 0; tap <= TAPS; ++tap) m.sums[threadIdx.x * (TAPS + 1) + tap] = first[tap];
    __syncthreads();
    for (int i = threadIdx.x; i < FIRST * (TAPS + 1); i += THREADS) {
        float sum = 0;
#pragma unroll
        for (int s = 0; s < THREADS / FIRST; ++s) sum += m.sums[s * FIRST * (TAPS + 1) + i];
        first_parts[slot * FIRST * (TAPS + 1) + i] = sum / (scale * WEIGHT_SCALE);
    }
}
