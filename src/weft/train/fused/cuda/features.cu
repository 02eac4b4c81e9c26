// Both convolutions, forward. A block computes the pooled maps of an image into shared memory and from them some channels of
// the second convolution, by products of [pixels][taps x channels] and [taps x channels][channels].
#include "net.cuh"

constexpr int WIDE = SIDE + 2;

// Mean and deviation of the first convolution's results, from the moments of the pixels.
template <int THREADS>
__device__ void first_norm(const float* __restrict__ moments, int parts, const float* weight, const float* __restrict__ gain,
                           const float* __restrict__ bias, float eps, int count, double* total, Norm* norm, double* variance) {
    for (int i = threadIdx.x; i < 2 * MOMENTS; i += THREADS) {
        double sum = 0;
#pragma unroll 8
        for (int p = i / MOMENTS; p < parts; p += 2) sum += moments[p * MOMENTS + i % MOMENTS];
        total[i] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < MOMENTS; i += THREADS) total[i] = (total[i] + total[MOMENTS + i]) / ((double)count * PIXELS);
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
#pragma unroll
        for (int j = 1; j < 4; j *= 2) mean += __shfl_xor_sync(~0u, mean, j), square += __shfl_xor_sync(~0u, square, j);
        if (i % 4 == 0) {
            double spread = fmax(square - mean * mean, 0.0);
            float inverse = (float)(1 / sqrt(spread + eps)), scale = gain[i / 4] * inverse;
            norm[i / 4] = {scale, (float)(bias[i / 4] - mean * scale), (float)mean, inverse};
            variance[i / 4] = spread;
        }
    }
    __syncthreads();
}

template <int COLUMNS>
struct alignas(16) Memory {
    float weight[DEPTH * COLUMNS];
    union {
        struct {
            double total[2 * MOMENTS], variance[FIRST];
        };                             // at the begin
        float maps[MAPS];              // for each image
        float sums[PAIRS][COLUMNS][2];  // at the end
    };
    Norm norm[FIRST];
    float filters[FIRST * 12];
    float image[WIDE * WIDE];
};

// What a launch asks for, by the number of columns: 32 or 64.
__device__ int shared_bytes[2] = {sizeof(Memory<32>), sizeof(Memory<64>)};

// The pooled maps of an image; lanes are windows.
template <bool EXACT, int GROUPS>
__device__ void first_block(const float* image, const float* filters, const Norm* norm, float* maps, float* __restrict__ saved,
                            unsigned char* __restrict__ places) {
    int share = threadIdx.x / (PAIRS * 32) * (FIRST / GROUPS);
    for (int w = threadIdx.x % (PAIRS * 32); w < MID; w += PAIRS * 32) {
        float x[4][4];
        int row = w / HALF, column = w % HALF;
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; j += 2) {
                float2 two = *reinterpret_cast<const float2*>(image + (2 * row + i) * WIDE + 2 * column + j);
                x[i][j] = two.x, x[i][j + 1] = two.y;
            }
#pragma unroll 2
        for (int c = share; c < share + FIRST / GROUPS; ++c) {
            float f[12];
#pragma unroll
            for (int i = 0; i < 3; ++i) reinterpret_cast<float4*>(f)[i] = reinterpret_cast<const float4*>(filters + c * 12)[i];
            float z[4] = {};
#pragma unroll
            for (int t = 0; t < TAPS; ++t)
#pragma unroll
                for (int i = 0; i < 4; ++i) z[i] += f[t] * x[i / 2 + t / 3][i % 2 + t % 3];
            Norm at = norm[c];
#pragma unroll
            for (int i = 0; i < 4; ++i) z[i] = fmaf(z[i], at.scale, at.shift);
            Pooled pooled(z[0], z[1], z[2], z[3]);
            float value = operand<EXACT>(pooled.value < 0 ? 0.0f : pooled.value);  // a NaN stays
            int to = plane_at(c) + (row + 1) * PITCH + column + 1;
            maps[to] = value;
            if (saved) {
                saved[to] = value;
                places[c * MID + w] = pooled.value <= 0 ? 4 : pooled.place;
            }
        }
    }
}

// GROUPS: of warps, which share the columns and the maps. One group leaves room for a second block.
template <bool EXACT, int COLUMNS, int GROUPS>
__global__ void __launch_bounds__(PAIRS * 32 * GROUPS, 3 - GROUPS)
    features(const float* __restrict__ pixels, const float* __restrict__ moments, int parts, const float* __restrict__ filters,
             const float* __restrict__ gain, const float* __restrict__ bias, float* __restrict__ running_mean,
             float* __restrict__ running_variance, const float* __restrict__ packed, float* __restrict__ maps,
             unsigned char* __restrict__ places, float* __restrict__ raw, float* __restrict__ statistics,
             double* __restrict__ totals, Norm* __restrict__ norms, float eps, float momentum, int count) {
    extern __shared__ __align__(16) unsigned char bytes[];
    auto& m = *reinterpret_cast<Memory<COLUMNS>*>(bytes);
    constexpr int THREADS = PAIRS * 32 * GROUPS, LOADS = (PIXELS + THREADS - 1) / THREADS, SPLIT = SECOND / COLUMNS;
    constexpr int ACROSS_TILES = COLUMNS / 8 / GROUPS, GROUP = EXACT && ACROSS_TILES > 4 ? 4 : ACROSS_TILES;
    int part = blockIdx.x % SPLIT, slot = blockIdx.x / SPLIT, slots = gridDim.x / SPLIT;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    int pair = warp % PAIRS, first = warp / PAIRS * (COLUMNS / GROUPS);
    for (int i = threadIdx.x; i < DEPTH * COLUMNS / 4; i += THREADS) {
        int row = i / (COLUMNS / 4), column = i % (COLUMNS / 4) * 4;
        // Four rows have different banks.
        copy_async<16>(m.weight + row * COLUMNS + (column ^ 8 * (row & 3)), packed + row * SECOND + part * COLUMNS + column);
    }
    for (int i = threadIdx.x; i < FIRST * TAPS; i += THREADS) m.filters[i / TAPS * 12 + i % TAPS] = filters[i];
    clear(m.image, WIDE * WIDE);
    first_norm<THREADS>(moments, parts, filters, gain, bias, eps, count, m.total, m.norm, m.variance);
    if (blockIdx.x == 0) {
        for (int i = threadIdx.x; i < MOMENTS; i += THREADS) totals[i] = m.total[i];
        double n = (double)count * PIXELS;
        for (int i = threadIdx.x; i < FIRST; i += THREADS) {
            norms[i] = m.norm[i];
            running_mean[i] += momentum * (m.norm[i].mean - running_mean[i]);
            running_variance[i] += momentum * ((float)(m.variance[i] * (n / fmax(n - 1, 1.0))) - running_variance[i]);
        }
    }
    __syncthreads();
    clear(m.maps, MAPS);
    float sum[ACROSS_TILES][2] = {}, square[ACROSS_TILES][2] = {};
    int at[2];
    float next[LOADS];
    auto load = [&](int n) {  // while the image before is computed
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int p = i * THREADS + threadIdx.x;
            if (n < count && p < PIXELS) next[i] = pixels[(long long)n * PIXELS + p];
        }
    };
    load(slot);
#pragma unroll
    for (int i = 0; i < 2; ++i) at[i] = Pixel(pair * 2 + i, group).corner();
    asm volatile("cp.async.wait_all;");
    for (int n = slot; n < count; n += slots) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int p = i * THREADS + threadIdx.x;
            if (p < PIXELS) m.image[(p / SIDE + 1) * WIDE + p % SIDE + 1] = next[i];
        }
        __syncthreads();
        first_block<EXACT, GROUPS>(m.image, m.filters, m.norm, m.maps, part ? nullptr : maps + (long long)n * MAPS,
                           places + (long long)n * FIRST * MID);
        __syncthreads();
        load(n + slots);
#pragma unroll
        for (int half = 0; half < ACROSS_TILES; half += GROUP) {
            float sums[2][GROUP][4] = {};
#pragma unroll 1
            for (int tap = 0; tap < TAPS; ++tap) {
                const float* a_at = m.maps + plane_at(t) + tap_at(tap);
                Stage<EXACT, 2, GROUP> stage;
                stage.begin();
#pragma unroll
                for (int k0 = 0; k0 < FIRST; k0 += 16) {
                    float a[2][2][4], b[2][GROUP][2];
#pragma unroll
                    for (int s = 0; s < 2; ++s) {
                        int k = k0 + 8 * s;
#pragma unroll
                        for (int i = 0; i < 2; ++i)
#pragma unroll
                            for (int j = 0; j < 4; ++j) a[s][i][j] = a_at[plane_at(k + j / 2 * 4) - 1 + at[i] + j % 2 * 8];
#pragma unroll
                        for (int i = 0; i < GROUP; ++i)
#pragma unroll
                            for (int j = 0; j < 2; ++j)
                                b[s][i][j] = m.weight[(tap * FIRST + k + t + j * 4) * COLUMNS + ((first + (half + i) * 8) ^ 8 * t) + group];
                    }
                    stage.add_16(sums, a, b);
                }
                stage.end(sums);
            }
            float* to = raw + ((long long)n * SECOND + part * COLUMNS + first) * MID;
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    Pixel p(pair * 2 + i, j / 2 * 8 + group);
                    if (p.exists()) {
#pragma unroll
                        for (int c = 0; c < GROUP; ++c) {
                            float y = sums[i][c][j] * (1 / WEIGHT_SCALE);
                            to[((half + c) * 8 + t * 2 + j % 2) * MID + p.number()] = y;
                            sum[half + c][j % 2] += y, square[half + c][j % 2] += y * y;
                        }
                    }
                }
        }
    }
    // Of the 8 lanes with the same columns, then of the warps.
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ACROSS_TILES * 2; ++i) {
        float a = sum[i / 2][i % 2], b = square[i / 2][i % 2];
#pragma unroll
        for (int j = 4; j < 32; j *= 2) a += __shfl_xor_sync(~0u, a, j), b += __shfl_xor_sync(~0u, b, j);
        if (group == 0) m.sums[pair][first + i / 2 * 8 + t * 2 + i % 2][0] = a, m.sums[pair][first + i / 2 * 8 + t * 2 + i % 2][1] = b;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < COLUMNS * 2; i += THREADS) {
        float total = 0;
#pragma unroll
        for (int w = 0; w < PAIRS; ++w) total += m.sums[w][i / 2][i % 2];
        statistics[(slot * SECOND + part * COLUMNS) * 2 + i] = total;
    }
}
