// The first linear layer, forward. A block normalises and pools some channels of 64 images and multiplies them by their weights;
// the sums of all channels are added by the next kernel.
#include "net.cuh"

constexpr int THREADS = 256, ROWS = 64, DEEP = (WINDOWS + 7) / 8 * 8, STEP = DEEP + 4, COUNT = HIDDEN / 32;

struct alignas(16) Memory {
    float left[ROWS * STEP], right[HIDDEN * STEP];
    Norm norm[SECOND];
};
__device__ int shared_bytes = sizeof(Memory);

template <bool EXACT>
__global__ void __launch_bounds__(THREADS, 2)
    hidden(const float* __restrict__ raw, const float* __restrict__ statistics, int slots, const float* __restrict__ gain,
           const float* __restrict__ bias, float* __restrict__ running_mean, float* __restrict__ running_variance,
           const float* __restrict__ weight, float* __restrict__ selected, float* __restrict__ partial,
           Norm* __restrict__ norms, float eps, float momentum, int count, int channels) {
    extern __shared__ __align__(16) unsigned char bytes[];
    auto& m = *reinterpret_cast<Memory*>(bytes);
    float *left = m.left, *right = m.right;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    int first = blockIdx.x * channels, begin = blockIdx.y * ROWS, rows = min(ROWS, count - begin);
    for (int c = warp; c < channels; c += THREADS / 32) {
        double sum = 0, square = 0;
        for (int s = lane; s < slots; s += 32) {
            float2 part = reinterpret_cast<const float2*>(statistics)[s * SECOND + first + c];
            sum += part.x, square += part.y;
        }
        sum = sum_of_warp(sum), square = sum_of_warp(square);
        if (lane == 0) {
            double n = (double)count * MID, mean = sum / n, spread = fmax(square / n - mean * mean, 0.0);
            float inverse = (float)(1 / sqrt(spread + eps)), scale = gain[first + c] * inverse;
            m.norm[c] = {scale, (float)(bias[first + c] - mean * scale), (float)mean, inverse};
            if (blockIdx.y == 0) {
                norms[first + c] = m.norm[c];
                running_mean[first + c] += momentum * ((float)mean - running_mean[first + c]);
                running_variance[first + c] += momentum * ((float)(spread * (n / fmax(n - 1, 1.0))) - running_variance[first + c]);
            }
        }
    }
    clear(m.left, (ROWS + HIDDEN) * STEP);
    float sums[2][COUNT][4] = {};
    for (int c = 0; c < channels; ++c) {
        __syncthreads();
        int channel = first + c;
        for (int i = threadIdx.x; i < HIDDEN * WINDOWS; i += THREADS)
            copy_async<4>(right + i / WINDOWS * STEP + i % WINDOWS, weight + (long long)(i / WINDOWS) * FLAT + channel * WINDOWS + i % WINDOWS);
#pragma unroll 4
        for (int i = threadIdx.x; i < rows * WINDOWS; i += THREADS) {
            int row = i / WINDOWS, w = i % WINDOWS;
            long long n = begin + row;
            const float* from = raw + (n * SECOND + channel) * MID + w / QUARTER * 2 * HALF + w % QUARTER * 2;
            float2 up = *reinterpret_cast<const float2*>(from), down = *reinterpret_cast<const float2*>(from + HALF);
            Norm z = m.norm[c];
            float y[4] = {up.x, up.y, down.x, down.y};
            Pooled pooled(fmaf(y[0], z.scale, z.shift), fmaf(y[1], z.scale, z.shift), fmaf(y[2], z.scale, z.shift),
                          fmaf(y[3], z.scale, z.shift));
            float chosen = pooled.place & 1 ? (pooled.place & 2 ? y[3] : y[1]) : (pooled.place & 2 ? y[2] : y[0]);
            selected[n * FLAT + channel * WINDOWS + w] = chosen;
            left[row * STEP + w] = operand<EXACT>(pooled.value < 0 ? 0.0f : pooled.value);
        }
        asm volatile("cp.async.wait_all;");
        __syncthreads();
        Stage<EXACT, 2, COUNT> stage;
        stage.begin();
#pragma unroll
        for (int k = 0; k < DEEP; k += 8) {
            float a[2][4], b[COUNT][2];
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    a[i][j] = left[(warp % 2 * 32 + i * 16 + j % 2 * 8 + group) * STEP + k + t + j / 2 * 4];
#pragma unroll
            for (int i = 0; i < COUNT; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) b[i][j] = operand<EXACT>(right[((warp / 2 * COUNT + i) * 8 + group) * STEP + k + t + j * 4]);
            stage.add(sums, a, b);
        }
        stage.end(sums);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int c = 0; c < COUNT; ++c)
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                int row = warp % 2 * 32 + i * 16 + j * 8 + group, column = (warp / 2 * COUNT + c) * 8 + t * 2;
                if (row < rows) {
                    long long to = ((long long)blockIdx.x * count + begin + row) * HIDDEN + column;
                    *reinterpret_cast<float2*>(partial + to) = {sums[i][c][2 * j], sums[i][c][2 * j + 1]};
                }
            }
}
