// Both convolutions, forward. A block computes the pooled maps of an image into shared memory and
// from them some channels of the second convolution, by products of [pixels][taps x channels] and
// [taps x channels][channels].
#include "net.cuh"

constexpr int WIDE = SIDE + 2;

// Mean and deviation of the first convolution's results, from the moments of the pixels.
template <int THREADS>
__device__ void first_norm(const float* __restrict__ moments, int parts, const float* weight,
                           const float* __restrict__ gain, const float* __restrict__ bias,
                           float eps, int count, double* total, Norm* norm, double* variance) {
    constexpr int SHARES = THREADS < 2 * MOMENTS ? 1 : THREADS < 4 * MOMENTS ? 2 : 4;
    for (int i = threadIdx.x; i < SHARES * MOMENTS; i += THREADS) {
        double sum = 0;
#pragma unroll 16
        for (int p = i / MOMENTS; p < parts; p += SHARES) sum += moments[p * MOMENTS + i % MOMENTS];
        total[i] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < MOMENTS; i += THREADS) {
        double sum = 0;
#pragma unroll
        for (int s = 0; s < SHARES; ++s) sum += total[s * MOMENTS + i];
        total[i] = sum / ((double)count * PIXELS);
    }
    __syncthreads();
    // Four lanes for a channel.
    for (int i = threadIdx.x; i < 4 * FIRST; i += THREADS) {
        double mean = 0, square = 0;
        const float* w = weight + i / 4 * TAPS;
        for (int t = i % 4; t < TAPS; t += 4) {
            mean += w[t] * total[t * (TAPS + 1) + TAPS];
            double row = 0;
#pragma unroll
            for (int s = 0; s < TAPS; ++s) row += w[s] * total[t * (TAPS + 1) + s];
            square += w[t] * row;
        }
        mean = weft::group_reduce<4>(mean, weft::Plus());
        square = weft::group_reduce<4>(square, weft::Plus());
        if (i % 4 == 0) {
            double spread = fmax(square - mean * mean, 0.0);
            float inverse = (float)(1 / sqrt(spread + eps)), scale = gain[i / 4] * inverse;
            norm[i / 4] = {scale, (float)(bias[i / 4] - mean * scale), (float)mean, inverse};
            variance[i / 4] = spread;
        }
    }
    __syncthreads();
}

template <bool EXACT, int COLUMNS>
struct alignas(16) Memory {
    unsigned weight[DEPTH * COLUMNS * PIECES<EXACT> / 2];
    union alignas(16) {
        struct {
            double total[4 * MOMENTS], variance[FIRST];
        };                                             // at the begin
        Half maps[2][POSITIONS * line<EXACT>(FIRST)];  // of an image, and of the next one
        float sums[PAIRS][COLUMNS][2];                 // at the end
    };
    Norm norm[FIRST];
    float filters[FIRST * 12];
    float image[2][WIDE * WIDE], sign[COLUMNS];
};

// The shared memory of a launch: by the precision, then by the number of columns, 32 or 64.
__device__ int shared_bytes[4] = {sizeof(Memory<false, 32>), sizeof(Memory<false, 64>),
                                  sizeof(Memory<true, 32>), sizeof(Memory<true, 64>)};

// The pooled maps of an image; lanes are windows.
template <bool EXACT, int GROUPS>
__device__ void first_block(const float* image, const float* filters, const Norm* norm, Half* maps,
                            unsigned char* __restrict__ places) {
    int share = threadIdx.x / (PAIRS * 32) * (FIRST / GROUPS);
    for (int w = threadIdx.x % (PAIRS * 32); w < MID; w += PAIRS * 32) {
        float x[4][4];
        int row = w / HALF, column = w % HALF;
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; j += 2) {
                float2 two =
                    *reinterpret_cast<const float2*>(image + (2 * row + i) * WIDE + 2 * column + j);
                x[i][j] = two.x, x[i][j + 1] = two.y;
            }
#pragma unroll 1
        for (int c = share; c < share + FIRST / GROUPS; c += 2) {
            float value[2];
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                float f[12];
#pragma unroll
                for (int i = 0; i < 3; ++i)
                    reinterpret_cast<float4*>(f)[i] =
                        reinterpret_cast<const float4*>(filters + (c + k) * 12)[i];
                float z[4] = {};
#pragma unroll
                for (int t = 0; t < TAPS; ++t)
#pragma unroll
                    for (int i = 0; i < 4; ++i) z[i] += f[t] * x[i / 2 + t / 3][i % 2 + t % 3];
                Norm at = norm[c + k];
#pragma unroll
                for (int i = 0; i < 4; ++i) z[i] = fmaf(z[i], at.scale, at.shift);
                Pooled pooled(z[0], z[1], z[2], z[3]);
                value[k] = pooled.value < 0 ? 0.0f : pooled.value;  // a NaN stays
                if (places) places[(c + k) * MID + w] = pooled.value <= 0 ? 4 : pooled.place;
            }
            unsigned piece[PIECES<EXACT>];
            pieces<EXACT>(value[0], value[1], piece);
#pragma unroll
            for (int p = 0; p < PIECES<EXACT>; ++p)
                *reinterpret_cast<unsigned*>(maps + position(row, column) * line<EXACT>(FIRST) +
                                             p * FIRST + c) = piece[p];
        }
    }
}

// GROUPS: of warps, which share the columns and the maps. One group leaves room for a second block.
template <bool EXACT, int COLUMNS, int GROUPS>
__global__ void __launch_bounds__(PAIRS * 32 * GROUPS, 3 - GROUPS)
    features(const float* __restrict__ pixels, const float* __restrict__ moments, int parts,
             const float* __restrict__ filters, const float* __restrict__ gain,
             const float* __restrict__ bias, float* __restrict__ running_mean,
             float* __restrict__ running_variance, const unsigned* __restrict__ packed,
             const float* __restrict__ second_gain, Half* __restrict__ maps,
             unsigned char* __restrict__ places, float* __restrict__ raw,
             float* __restrict__ selected, float* __restrict__ statistics,
             double* __restrict__ totals, Norm* __restrict__ norms, float eps, float momentum,
             int count) {
    extern __shared__ __align__(16) unsigned char bytes[];
    auto& m = *reinterpret_cast<Memory<EXACT, COLUMNS>*>(bytes);
    constexpr int THREADS = PAIRS * 32 * GROUPS, LOADS = (PIXELS + THREADS - 1) / THREADS,
                  SPLIT = SECOND / COLUMNS;
    constexpr int ACROSS_TILES = COLUMNS / 8 / GROUPS, LINE = line<EXACT>(FIRST);
    constexpr int STEP = COLUMNS / 8 * 32 * PACKED<EXACT>;  // registers of 16 products
    int part = blockIdx.x % SPLIT, slot = blockIdx.x / SPLIT, slots = gridDim.x / SPLIT;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    int pair = warp % PAIRS, first = warp / PAIRS * (COLUMNS / GROUPS);
    clear(m.image[0], 2 * WIDE * WIDE);
    for (int i = threadIdx.x; i < DEPTH / 16 * STEP / 4; i += THREADS)
        weft::copy_async<16>(m.weight + i * 4,
                             packed + (i / (STEP / 4) * SPLIT + part) * STEP + i % (STEP / 4) * 4);
    for (int i = threadIdx.x; i < FIRST * TAPS; i += THREADS)
        m.filters[i / TAPS * 12 + i % TAPS] = filters[i];
    for (int i = threadIdx.x; i < COLUMNS; i += THREADS)
        m.sign[i] = sign_of(second_gain[part * COLUMNS + i]);
    first_norm<THREADS>(moments, parts, filters, gain, bias, eps, count, m.total, m.norm,
                        m.variance);
    if (blockIdx.x == 0) {
        for (int i = threadIdx.x; i < MOMENTS; i += THREADS) totals[i] = m.total[i];
        double n = (double)count * PIXELS;
        for (int i = threadIdx.x; i < FIRST; i += THREADS) {
            norms[i] = m.norm[i];
            running_mean[i] += momentum * (m.norm[i].mean - running_mean[i]);
            running_variance[i] +=
                momentum * ((float)(m.variance[i] * (n / fmax(n - 1, 1.0))) - running_variance[i]);
        }
    }
    __syncthreads();
    clear(reinterpret_cast<unsigned*>(m.maps[0]), POSITIONS * LINE);
    float sum[ACROSS_TILES][2] = {}, square[ACROSS_TILES][2] = {};
    float next[LOADS];
    auto load = [&](int n) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int p = i * THREADS + threadIdx.x;
            if (n < count && p < PIXELS) next[i] = pixels[(long long)n * PIXELS + p];
        }
    };
    auto store = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int p = i * THREADS + threadIdx.x;
            if (p < PIXELS) m.image[buffer][(p / SIDE + 1) * WIDE + p % SIDE + 1] = next[i];
        }
    };
    // A lane has the address of a row of matrices: a pixel, and 8 of 16 channels.
    unsigned left =
        weft::shared_address(m.maps[0] + (pair * 2 * PITCH + lane % 16) * LINE + lane / 16 * 8);
    const unsigned* right = m.weight + (first / 8 * 32 + lane) * PACKED<EXACT>;
    load(slot);
    weft::wait_all_copies();
    store(0);
    load(slot + slots);
    __syncthreads();
    auto second_block = [&](int n, int buffer) {
        constexpr int CHUNKS = FIRST * PIECES<EXACT> / 8;
        for (int i = part * THREADS + threadIdx.x; i < MID * CHUNKS; i += SPLIT * THREADS) {
            int p = i / CHUNKS;
            reinterpret_cast<uint4*>(maps)[(long long)n * MID * CHUNKS + i] =
                *reinterpret_cast<const uint4*>(
                    m.maps[buffer] + position(p / HALF, p % HALF) * LINE + i % CHUNKS * 8);
        }
        unsigned at = left + buffer * POSITIONS * LINE * (int)sizeof(Half);
        float sums[2][ACROSS_TILES][4] = {};
#pragma unroll 1
        for (int tap = 0; tap < TAPS; ++tap) {
            Stage<EXACT, 2, ACROSS_TILES> stage;
            stage.begin();
#pragma unroll
            for (int k = 0; k < FIRST / 16; ++k) {
                unsigned a[2][PIECES<EXACT>][4], b[ACROSS_TILES][PACKED<EXACT>];
#pragma unroll
                for (int i = 0; i < 2; ++i)
#pragma unroll
                    for (int p = 0; p < PIECES<EXACT>; ++p)
                        load_matrices<false>(
                            a[i][p], at + ((i * PITCH + tap_at(tap)) * LINE + p * FIRST + k * 16) *
                                              (int)sizeof(Half));
#pragma unroll
                for (int i = 0; i < ACROSS_TILES; ++i)
                    load_packed<EXACT>(
                        b[i], right + (tap * (FIRST / 16) + k) * STEP + i * 32 * PACKED<EXACT>);
                stage.add(sums, a, b);
            }
            stage.end(sums);
        }
        int channel = part * COLUMNS + first + t * 2;
#pragma unroll
        for (int c = 0; c < ACROSS_TILES; ++c)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                int column = h * 8 + group;
                float y[2][2], most[2];
#pragma unroll
                for (int i = 0; i < 2; ++i)
#pragma unroll
                    for (int j = 0; j < 2; ++j)
                        y[i][j] = sums[i][c][2 * h + j] * (1 / WEIGHT_SCALE);
                if (column < HALF) {
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        long long to = (long long)n * MID + (pair * 2 + i) * HALF + column;
                        *reinterpret_cast<float2*>(raw + to * SECOND + channel + c * 8) = {y[i][0],
                                                                                           y[i][1]};
                    }
#pragma unroll
                    for (int j = 0; j < 2; ++j) {
                        sum[c][j] += y[0][j] + y[1][j];
                        square[c][j] += y[0][j] * y[0][j] + y[1][j] * y[1][j];
                    }
                }
            // The result that pooling selects after batch norm.
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    float sign = m.sign[first + c * 8 + t * 2 + j];
                    most[j] = fmaxf(sign * y[0][j], sign * y[1][j]);
                    most[j] = sign * fmaxf(most[j], weft::shuffle_xor(most[j], 4));
                }
                // Each of two neighbouring columns has the window of one channel.
                int j = group % 2;
                if (column < HALF)
                    selected[(long long)n * FLAT + (channel + c * 8 + j) * WINDOWS +
                             pair * QUARTER + column / 2] = j ? most[1] : most[0];
            }
    };
    // While the second convolution of an image is computed, so is the first one of the next: its
    // maps go to the other buffer. Some warps begin with the one, some with the other, so that
    // tensor cores and ordinary units work at the same time.
    bool early = warp / 4 % 2 == 0;
    int buffer = 1;
    for (int n = slot - slots; n < count; n += slots, buffer ^= 1) {
        int following = n + slots;
#pragma unroll 1
        for (int phase = 0; phase < 2; ++phase) {
            if ((phase == 0) != early) {
                if (following < count)
                    first_block<EXACT, GROUPS>(
                        m.image[buffer ^ 1], m.filters, m.norm, m.maps[buffer ^ 1],
                        part ? nullptr : places + (long long)following * FIRST * MID);
            } else if (n >= slot) {
                second_block(n, buffer);
            }
        }
        store(buffer);
        load(following + 2 * slots);
        __syncthreads();
    }
    // Sums of the 8 lanes with the same columns, then of the warps.
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ACROSS_TILES * 2; ++i) {
        float a = sum[i / 2][i % 2], b = square[i / 2][i % 2];
        a = weft::strided_reduce<4>(a, weft::Plus()), b = weft::strided_reduce<4>(b, weft::Plus());
        if (group == 0)
            m.sums[pair][first + i / 2 * 8 + t * 2 + i % 2]
                  [0] = a,
                m.sums[pair][first + i / 2 * 8 + t * 2 + i % 2][1] = b;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < COLUMNS * 2; i += THREADS) {
        float total = 0;
#pragma unroll
        for (int w = 0; w < PAIRS; ++w) total += m.sums[w][i / 2][i % 2];
        statistics[(slot * SECOND + part * COLUMNS) * 2 + i] = total;
    }
}
