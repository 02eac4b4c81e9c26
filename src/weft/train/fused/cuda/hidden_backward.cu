// The linear layers, backward. A block takes one channel of the pooled maps, 49 columns of the first layer's weights, and some of
// the images: the gradient of its maps, the sums that batch norm needs of it, and the gradient of its weights. The last blocks
// compute the gradients of the biases and of the last layer.
#include "net.cuh"

constexpr int THREADS = 256, ROWS = 64, WIDTH = (WINDOWS + 7) / 8 * 8, COLUMNS = WIDTH / 8;
constexpr int STEP = HIDDEN + 4, LINE = WIDTH % 32 == 8 || WIDTH % 32 == 24 ? WIDTH : WIDTH + 8;
constexpr int SLICE = 8;  // hidden units of a block of the last layer's gradients

struct alignas(16) Memory {
    float gradient[ROWS * STEP];  // of the hidden layer
    float weight[HIDDEN * LINE], value[ROWS * LINE], chosen[ROWS * LINE];
};
__device__ int shared_bytes = sizeof(Memory);
static_assert(2 * (CLASSES + 1) * THREADS * sizeof(float) <= sizeof(Memory), "sums of the last layer");

// Some hidden units: their bias, their weights in the last layer; the first block also the last bias and the loss.
__device__ void last_layer(const float* __restrict__ h, const float* __restrict__ h_gradient, const float* __restrict__ score_gradient,
                           const float* __restrict__ losses, float* __restrict__ gradients, float* __restrict__ mean,
                           int count, int block, float* memory) {
    // gradients: hidden bias [HIDDEN], last weight [CLASSES][HIDDEN], last bias [CLASSES]
    constexpr int LANES = THREADS / SLICE;
    int unit = threadIdx.x % SLICE, from = threadIdx.x / SLICE, at = block * SLICE + unit;
    float sums[CLASSES + 1] = {}, bias[CLASSES + 1] = {};
    for (int n = from; n < count; n += LANES) {
        float value = h[(long long)n * HIDDEN + at];
        sums[CLASSES] += h_gradient[(long long)n * HIDDEN + at];
#pragma unroll
        for (int k = 0; k < CLASSES; ++k) {
            float g = score_gradient[(long long)n * 16 + k];
            sums[k] += g * value, bias[k] += g;
        }
        bias[CLASSES] += losses[n];
    }
    float(*parts)[THREADS] = reinterpret_cast<float(*)[THREADS]>(memory);
#pragma unroll
    for (int k = 0; k <= CLASSES; ++k) parts[k][threadIdx.x] = sums[k], parts[CLASSES + 1 + k][threadIdx.x] = bias[k];
    __syncthreads();
    // The last rows are the same for every unit.
    for (int i = threadIdx.x; i < (CLASSES + 1) * (SLICE + 1); i += THREADS) {
        int k = i / (SLICE + 1), u = i % (SLICE + 1), row = u == SLICE ? CLASSES + 1 + k : k;
        float sum = 0;
#pragma unroll 8
        for (int j = 0; j < LANES; ++j) sum += parts[row][j * SLICE + u % SLICE];
        if (u < SLICE) gradients[k == CLASSES ? block * SLICE + u : (k + 1) * HIDDEN + block * SLICE + u] = sum;
        else if (block == 0 && k < CLASSES) gradients[(CLASSES + 1) * HIDDEN + k] = sum;
        else if (block == 0) *mean = sum / count;
    }
}

template <bool EXACT>
__global__ void __launch_bounds__(THREADS, 2)
    hidden_backward(const float* __restrict__ h, const float* __restrict__ h_gradient, const float* __restrict__ score_gradient,
                    const float* __restrict__ losses, const float* __restrict__ weight, const float* __restrict__ selected,
                    const Norm* __restrict__ norms, float* __restrict__ map_gradient, float* __restrict__ weight_gradient,
                    float* __restrict__ sums_of_norm, float* __restrict__ gradients, float* __restrict__ mean, int count, int parts) {
    extern __shared__ __align__(16) unsigned char bytes[];
    auto& m = *reinterpret_cast<Memory*>(bytes);
    if (blockIdx.x >= SECOND * parts) {
        last_layer(h, h_gradient, score_gradient, losses, gradients, mean, count, blockIdx.x - SECOND * parts, m.gradient);
        return;
    }
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    int channel = blockIdx.x % SECOND, part = blockIdx.x / SECOND;
    Norm norm = norms[channel];
    clear(m.weight, HIDDEN * LINE);
    clear(m.value, 2 * ROWS * LINE);
    __syncthreads();
    for (int i = threadIdx.x; i < HIDDEN * WINDOWS; i += THREADS)
        copy_async<4>(m.weight + i / WINDOWS * LINE + i % WINDOWS,
                      weight + (long long)(i / WINDOWS) * FLAT + channel * WINDOWS + i % WINDOWS);
    float sums[HIDDEN / 128][COLUMNS][4] = {}, total = 0, along = 0;
    for (int begin = part * ROWS; begin < count; begin += parts * ROWS) {
        int rows = min(ROWS, count - begin);
        __syncthreads();
        for (int i = threadIdx.x; i < ROWS * HIDDEN / 4; i += THREADS) {
            int row = i / (HIDDEN / 4), column = i % (HIDDEN / 4) * 4;
            float* to = m.gradient + row * STEP + column;
            if (row < rows) copy_async<16>(to, h_gradient + (long long)(begin + row) * HIDDEN + column);
            else *reinterpret_cast<float4*>(to) = {0, 0, 0, 0};
        }
#pragma unroll 7
        for (int i = threadIdx.x; i < rows * WINDOWS; i += THREADS) {
            int row = i / WINDOWS, w = i % WINDOWS;
            float y = selected[(long long)(begin + row) * FLAT + channel * WINDOWS + w], z = fmaf(y, norm.scale, norm.shift);
            m.chosen[row * LINE + w] = y;
            m.value[row * LINE + w] = operand<EXACT>(z < 0 ? 0.0f : z);
        }
        asm volatile("cp.async.wait_all;");
        __syncthreads();
        {  // the gradient of the maps: [rows][hidden] x [hidden][windows]; two warps for 16 rows
            constexpr int SHARE = (COLUMNS + 1) / 2;
            float result[1][SHARE][4] = {};
            int row = warp / 2 * 16 + group, column = warp % 2 * SHARE * 8;
            for (int k0 = 0; k0 < HIDDEN; k0 += 32) {
                Stage<EXACT, 1, SHARE> stage;
                stage.begin();
#pragma unroll
                for (int k = k0; k < k0 + 32; k += 8) {
                    float a[1][4], b[SHARE][2];
#pragma unroll
                    for (int j = 0; j < 4; ++j) a[0][j] = m.gradient[(row + j % 2 * 8) * STEP + k + t + j / 2 * 4];
#pragma unroll
                    for (int i = 0; i < SHARE; ++i)
#pragma unroll
                        for (int j = 0; j < 2; ++j) {
                            int at = min(column + i * 8, WIDTH - 8);
                            b[i][j] = operand<EXACT>(m.weight[(k + t + j * 4) * LINE + at + group]);
                        }
                    stage.add(result, a, b);
                }
                stage.end(result);
            }
#pragma unroll
            for (int i = 0; i < SHARE; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    int r = row + j / 2 * 8, w = column + i * 8 + t * 2 + j % 2;
                    if (r < rows && w < WINDOWS) {
                        float y = m.chosen[r * LINE + w];
                        float g = fmaf(y, norm.scale, norm.shift) <= 0 ? 0.0f : result[0][i][j];
                        map_gradient[(long long)(begin + r) * FLAT + channel * WINDOWS + w] = g;
                        total += g, along += g * ((y - norm.mean) * norm.inverse);
                    }
                }
        }
        // the gradient of the weights: [hidden][rows] x [rows][windows]
        Stage<EXACT, HIDDEN / 128, COLUMNS> stage;
        stage.begin();
#pragma unroll 2
        for (int k = 0; k < ROWS; k += 8) {
            float a[HIDDEN / 128][4], b[COLUMNS][2];
#pragma unroll
            for (int i = 0; i < HIDDEN / 128; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    a[i][j] = m.gradient[(k + t + j / 2 * 4) * STEP + i * 128 + warp * 16 + j % 2 * 8 + group];
#pragma unroll
            for (int i = 0; i < COLUMNS; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) b[i][j] = m.value[(k + t + j * 4) * LINE + i * 8 + group];
            stage.add(sums, a, b);
        }
        stage.end(sums);
    }
    // Rows of zeros add nothing; rows that an earlier pass left behind are multiplied by a gradient of zero.
#pragma unroll
    for (int i = 0; i < HIDDEN / 128; ++i)
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                int row = i * 128 + warp * 16 + j / 2 * 8 + group, w = c * 8 + t * 2 + j % 2;
                if (w < WINDOWS) weight_gradient[((long long)part * HIDDEN + row) * FLAT + channel * WINDOWS + w] = sums[i][c][j];
            }
    __syncthreads();
    m.gradient[threadIdx.x] = total, m.gradient[THREADS + threadIdx.x] = along;
    __syncthreads();
    if (warp < 2) {
        double sum = 0;
#pragma unroll
        for (int i = 0; i < THREADS / 32; ++i) sum += m.gradient[warp * THREADS + i * 32 + lane];
        sum = sum_of_warp(sum);
        if (lane == 0) sums_of_norm[(part * SECOND + channel) * 2 + warp] = (float)sum;
    }
}
