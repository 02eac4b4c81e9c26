// The linear layers, backward. A block takes 32 columns of the first layer's weights, and some of
// the images: the gradient of what they multiply, the sums that batch norm needs of it, and the
// gradient of the weights. The last blocks compute the gradients of the biases and of the last
// layer.
#include "net.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32, ROWS = 64, ACROSS = HIDDEN / 128;
constexpr int SLICE = 8;  // hidden units of a block of the last layer's gradients

template <bool EXACT>
struct alignas(16) Memory {
    static constexpr int LONG = line<EXACT>(HIDDEN), SHORT = line<EXACT>(WIDTH);
    Half gradient[2][ROWS * LONG];  // of the hidden layer, of these images and of the next ones
    Half weight[HIDDEN * SHORT], value[ROWS * SHORT];
    float chosen[ROWS * (WIDTH + 4)];
    float sums[WARPS / 2][WIDTH][2];  // of the columns, for batch norm
    Norm norm[WIDTH];
};
__device__ int shared_bytes[2] = {sizeof(Memory<false>), sizeof(Memory<true>)};
static_assert(2 * (CLASSES + 1) * THREADS * sizeof(float) <= sizeof(Memory<false>),
              "sums of the last layer");

// Some hidden units: their bias, their weights in the last layer; the first block also the last
// bias and the loss.
template <bool EXACT>
__device__ void last_layer(const float* __restrict__ h, const Half* __restrict__ h_gradient,
                           const float* __restrict__ score_gradient,
                           const float* __restrict__ losses, float* __restrict__ gradients,
                           float* __restrict__ mean, int count, float scale, int block,
                           float* memory) {
    // gradients: hidden bias [HIDDEN], last weight [CLASSES][HIDDEN], last bias [CLASSES]
    constexpr int LANES = THREADS / SLICE, QUADS = (CLASSES + 3) / 4;
    int unit = threadIdx.x % SLICE, from = threadIdx.x / SLICE, at = block * SLICE + unit;
    float sums[CLASSES + 1] = {}, bias[CLASSES + 1] = {};
#pragma unroll 4
    for (int n = from; n < count; n += LANES) {
        float value = h[(long long)n * HIDDEN + at], g[4 * QUADS];
#pragma unroll
        for (int q = 0; q < QUADS; ++q)
            reinterpret_cast<float4*>(g)[q] =
                reinterpret_cast<const float4*>(score_gradient)[(long long)n * 4 + q];
#pragma unroll
        for (int p = 0; p < PIECES<EXACT>; ++p)
            sums[CLASSES] += weft::unpack<__half>(
                h_gradient[((long long)n * PIECES<EXACT> + p) * HIDDEN + at], 0);
#pragma unroll
        for (int k = 0; k < CLASSES; ++k) sums[k] += g[k] * value, bias[k] += g[k];
        bias[CLASSES] += losses[n];
    }
    sums[CLASSES] /= scale;
    float (*parts)[THREADS] = reinterpret_cast<float (*)[THREADS]>(memory);
#pragma unroll
    for (int k = 0; k <= CLASSES; ++k)
        parts[k][threadIdx.x] = sums[k], parts[CLASSES + 1 + k][threadIdx.x] = bias[k];
    __syncthreads();
    // The last rows are the same for every unit.
    for (int i = threadIdx.x; i < (CLASSES + 1) * (SLICE + 1); i += THREADS) {
        int k = i / (SLICE + 1), u = i % (SLICE + 1), row = u == SLICE ? CLASSES + 1 + k : k;
        float sum = 0;
#pragma unroll 8
        for (int j = 0; j < LANES; ++j) sum += parts[row][j * SLICE + u % SLICE];
        if (u < SLICE)
            gradients[k == CLASSES ? block * SLICE + u : (k + 1) * HIDDEN + block * SLICE + u] =
                sum;
        else if (block == 0 && k < CLASSES) gradients[(CLASSES + 1) * HIDDEN + k] = sum;
        else if (block == 0) *mean = sum / count;
    }
}

template <bool EXACT>
__global__ void __launch_bounds__(THREADS, 2)
    hidden_backward(const float* __restrict__ h, const Half* __restrict__ h_gradient,
                    const float* __restrict__ score_gradient, const float* __restrict__ losses,
                    const float* __restrict__ weight, const float* __restrict__ selected,
                    const Norm* __restrict__ norms, float* __restrict__ map_gradient,
                    float* __restrict__ weight_gradient, float* __restrict__ sums_of_norm,
                    float* __restrict__ gradients, float* __restrict__ mean, int count, int parts,
                    float scale) {
    extern __shared__ __align__(16) unsigned char bytes[];
    using M = Memory<EXACT>;
    auto& m = *reinterpret_cast<M*>(bytes);
    constexpr int QUADS = WIDTH / 4, LOADS = ROWS * QUADS / THREADS, CHOSEN = WIDTH + 4;
    if (blockIdx.x >= TILES * parts) {
        last_layer<EXACT>(h, h_gradient, score_gradient, losses, gradients, mean, count, scale,
                          blockIdx.x - TILES * parts, reinterpret_cast<float*>(bytes));
        return;
    }
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    int tile = blockIdx.x % TILES, part = blockIdx.x / TILES, first = tile * WIDTH,
        quad = threadIdx.x % QUADS * 4;
    for (int i = threadIdx.x; i < HIDDEN * QUADS; i += THREADS) {
        float4 x =
            *reinterpret_cast<const float4*>(weight + (long long)(i / QUADS) * FLAT + first + quad);
        store_pieces<EXACT, WIDTH>(
            m.weight + i / QUADS * M::SHORT + quad,
            {x.x * HIDDEN_SCALE, x.y * HIDDEN_SCALE, x.z * HIDDEN_SCALE, x.w * HIDDEN_SCALE});
    }
    float4 next[LOADS];
    // While the images before are multiplied. Images that do not exist have a gradient of zero.
    auto load = [&](int begin, int buffer) {
        constexpr int CHUNKS = HIDDEN * PIECES<EXACT> / 8;
        for (int i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
            Half* to = m.gradient[buffer] + i / CHUNKS * M::LONG + i % CHUNKS * 8;
            if (begin + i / CHUNKS < count)
                weft::copy_async<16>(to, h_gradient + ((long long)begin * CHUNKS + i) * 8);
            else *reinterpret_cast<uint4*>(to) = {0, 0, 0, 0};
        }
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int row = begin + (i * THREADS + threadIdx.x) / QUADS;
            if (row < count)
                next[i] = *reinterpret_cast<const float4*>(selected + (long long)row * FLAT +
                                                           first + quad);
        }
    };
#pragma unroll
    for (int i = 0; i < LOADS; ++i) next[i] = {0, 0, 0, 0};
    load(part * ROWS, 0);
    for (int i = threadIdx.x; i < WIDTH; i += THREADS) m.norm[i] = norms[(first + i) / WINDOWS];
    float sums[ACROSS][WIDTH / 8][4] = {}, total[2][2] = {}, along[2][2] = {};
    int row = warp / 2 * 16, column = warp % 2 * 16,
        buffer = 0;  // of the first product: 16 images and 16 columns
    for (int begin = part * ROWS; begin < count; begin += parts * ROWS, buffer ^= 1) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int at = (i * THREADS + threadIdx.x) / QUADS;
            float z[4] = {next[i].x, next[i].y, next[i].z, next[i].w};
            *reinterpret_cast<float4*>(m.chosen + at * CHOSEN + quad) = next[i];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                z[j] = fmaf(z[j], m.norm[quad + j].scale, m.norm[quad + j].shift);
                z[j] = z[j] < 0 ? 0.0f : z[j];
            }
            store_pieces<EXACT, WIDTH>(m.value + at * M::SHORT + quad, {z[0], z[1], z[2], z[3]});
        }
        weft::wait_all_copies();
        __syncthreads();
        if (begin + parts * ROWS < count) load(begin + parts * ROWS, buffer ^ 1);
        {  // the gradient of the maps: [images][hidden] x [hidden][columns]
            unsigned a_at = weft::shared_address(m.gradient[buffer] + (row + lane % 16) * M::LONG +
                                                 lane / 16 * 8);
            unsigned b_at = weft::shared_address(m.weight + lane % 16 * M::SHORT + column +
                                                 (EXACT ? lane / 16 * WIDTH : 0));
            float result[1][2][4] = {};
#pragma unroll 1
            for (int k0 = 0; k0 < HIDDEN; k0 += 64) {
                Stage<EXACT, 1, 2> stage;
                stage.begin();
#pragma unroll
                for (int k = 0; k < 64; k += 16) {
                    unsigned a[1][PIECES<EXACT>][4], b[2][PACKED<EXACT>];
#pragma unroll
                    for (int p = 0; p < PIECES<EXACT>; ++p)
                        load_matrices<false>(a[0][p],
                                             a_at + (k0 + k + p * HIDDEN) * (int)sizeof(Half));
#pragma unroll
                    for (int i = 0; i < 2; ++i)
                        load_matrices<true>(
                            b[i], b_at + ((k0 + k) * M::SHORT + i * 8) * (int)sizeof(Half));
                    stage.add(result, a, b);
                }
                stage.end(result);
            }
            float back = 1 / (scale * HIDDEN_SCALE);
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    int r = row + half * 8 + group, w = column + i * 8 + t * 2;
                    if (begin + r >= count) continue;
                    float g[2];
#pragma unroll
                    for (int j = 0; j < 2; ++j) {
                        Norm norm = m.norm[w + j];
                        float y = m.chosen[r * CHOSEN + w + j];
                        g[j] = fmaf(y, norm.scale, norm.shift) <= 0
                                   ? 0.0f
                                   : result[0][i][half * 2 + j] * back;
                        total[i][j] += g[j], along[i][j] += g[j] * ((y - norm.mean) * norm.inverse);
                    }
                    *reinterpret_cast<float2*>(map_gradient + (long long)(begin + r) * FLAT +
                                               first + w) = {g[0], g[1]};
                }
        }
        // the gradient of the weights: [hidden][images] x [images][columns]
        unsigned a_at =
            weft::shared_address(m.gradient[buffer] + (lane % 8 + lane / 16 * 8) * M::LONG +
                                 warp * 16 + lane / 8 % 2 * 8);
        unsigned b_at =
            weft::shared_address(m.value + lane % 16 * M::SHORT + (EXACT ? lane / 16 * WIDTH : 0));
        Stage<EXACT, ACROSS, WIDTH / 8> stage;
        stage.begin();
#pragma unroll
        for (int k = 0; k < ROWS; k += 16) {
            unsigned a[ACROSS][PIECES<EXACT>][4], b[WIDTH / 8][PACKED<EXACT>];
#pragma unroll
            for (int i = 0; i < ACROSS; ++i)
#pragma unroll
                for (int p = 0; p < PIECES<EXACT>; ++p)
                    load_matrices<true>(
                        a[i][p], a_at + (k * M::LONG + i * 128 + p * HIDDEN) * (int)sizeof(Half));
#pragma unroll
            for (int i = 0; i < WIDTH / 8; ++i)
                load_matrices<true>(b[i], b_at + (k * M::SHORT + i * 8) * (int)sizeof(Half));
            stage.add(sums, a, b);
        }
        stage.end(sums);
    }
#pragma unroll
    for (int i = 0; i < ACROSS; ++i)
#pragma unroll
        for (int c = 0; c < WIDTH / 8; ++c)
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                long long to =
                    ((long long)part * HIDDEN + i * 128 + warp * 16 + j * 8 + group) * FLAT +
                    first + c * 8 + t * 2;
                *reinterpret_cast<float2*>(weight_gradient + to) = {sums[i][c][2 * j] / scale,
                                                                    sums[i][c][2 * j + 1] / scale};
            }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float a = total[i / 2][i % 2], b = along[i / 2][i % 2];
        a = weft::strided_reduce<4>(a, weft::Plus()), b = weft::strided_reduce<4>(b, weft::Plus());
        if (group == 0)
            m.sums[warp / 2][column + i / 2 * 8 + t * 2 + i % 2]
                  [0] = a,
                m.sums[warp / 2][column + i / 2 * 8 + t * 2 + i % 2][1] = b;
    }
    __syncthreads();
    // Sums of each channel that has some of the columns; lanes are columns.
    static_assert(WIDTH == 32, "a column for each lane");
    if (warp < 2) {
        double sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS / 2; ++w) sum += m.sums[w][lane][warp];
        for (int c = 0; c < TILE_CHANNELS; ++c) {
            double own =
                weft::warp_sum((first + lane) / WINDOWS - first / WINDOWS == c ? sum : 0.0);
            if (lane == 0)
                sums_of_norm[((part * TILES + tile) * TILE_CHANNELS + c) * 2 + warp] = (float)own;
        }
    }
}
