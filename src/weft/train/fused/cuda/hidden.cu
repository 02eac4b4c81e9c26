// The first linear layer, forward. A block takes some of the depth for 64 images: it normalises
// what pooling selected, and multiplies. The sums over the whole depth are added by the next
// kernel.
#include "net.cuh"

constexpr int THREADS = 256, ROWS = 64, DEEP = WIDTH, COUNT = HIDDEN / 32;

template <bool EXACT>
struct alignas(16) Memory {
    Half left[2][ROWS * line<EXACT>(DEEP)], right[2][HIDDEN * line<EXACT>(DEEP)];
    Norm norm[SECOND];
};
__device__ int shared_bytes[2] = {sizeof(Memory<false>), sizeof(Memory<true>)};

__device__ int tile_sums = TILE_CHANNELS * 2;

// chunks: of DEEP, of a block
template <bool EXACT>
__global__ void __launch_bounds__(THREADS, 2)
    hidden(const float* __restrict__ selected, const float* __restrict__ statistics, int slots,
           const float* __restrict__ gain, const float* __restrict__ bias,
           float* __restrict__ running_mean, float* __restrict__ running_variance,
           const float* __restrict__ weight, float* __restrict__ partial, Norm* __restrict__ norms,
           float eps, float momentum, int count, int chunks) {
    extern __shared__ __align__(16) unsigned char bytes[];
    auto& m = *reinterpret_cast<Memory<EXACT>*>(bytes);
    constexpr int LINE = line<EXACT>(DEEP), QUADS = DEEP / 4, LEFTS = ROWS * QUADS / THREADS,
                  RIGHTS = HIDDEN * QUADS / THREADS;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    int first = blockIdx.x * chunks * DEEP, last = min(first + chunks * DEEP, FLAT),
        begin = blockIdx.y * ROWS, rows = min(ROWS, count - begin);
    float4 left[LEFTS], right[RIGHTS];
    auto load = [&](int k) {
        k += threadIdx.x % QUADS * 4;
#pragma unroll
        for (int i = 0; i < RIGHTS; ++i)
            right[i] = *reinterpret_cast<const float4*>(
                weight + (long long)((i * THREADS + threadIdx.x) / QUADS) * FLAT + k);
#pragma unroll
        for (int i = 0; i < LEFTS; ++i) {
            int row = (i * THREADS + threadIdx.x) / QUADS;
            left[i] = {0, 0, 0, 0};
            if (row < rows)
                left[i] = *reinterpret_cast<const float4*>(selected +
                                                           (long long)(begin + row) * FLAT + k);
        }
    };
    load(first);
    for (int c = first / WINDOWS + warp; c * WINDOWS < last; c += THREADS / 32) {
        double sum = 0, square = 0;
        for (int s = lane; s < slots; s += 32) {
            float2 part = reinterpret_cast<const float2*>(statistics)[s * SECOND + c];
            sum += part.x, square += part.y;
        }
        sum = weft::warp_sum(sum), square = weft::warp_sum(square);
        if (lane == 0) {
            double n = (double)count * MID, mean = sum / n,
                   spread = fmax(square / n - mean * mean, 0.0);
            float inverse = (float)(1 / sqrt(spread + eps)), scale = gain[c] * inverse;
            m.norm[c] = {scale, (float)(bias[c] - mean * scale), (float)mean, inverse};
            if (blockIdx.y == 0 && c * WINDOWS >= first) {  // one block has the begin of a channel
                norms[c] = m.norm[c];
                running_mean[c] += momentum * ((float)mean - running_mean[c]);
                running_variance[c] +=
                    momentum * ((float)(spread * (n / fmax(n - 1, 1.0))) - running_variance[c]);
            }
        }
    }
    __syncthreads();
    float sums[2][COUNT][4] = {};
    int buffer = 0;
    for (int k = first; k < last; k += DEEP, buffer ^= 1) {
        int column = threadIdx.x % QUADS * 4;
#pragma unroll
        for (int i = 0; i < RIGHTS; ++i) {
            float4 x = right[i];
            store_pieces<EXACT, DEEP>(
                m.right[buffer] + (i * THREADS + threadIdx.x) / QUADS * LINE + column,
                {x.x * HIDDEN_SCALE, x.y * HIDDEN_SCALE, x.z * HIDDEN_SCALE, x.w * HIDDEN_SCALE});
        }
#pragma unroll
        for (int i = 0; i < LEFTS; ++i) {
            float z[4] = {left[i].x, left[i].y, left[i].z, left[i].w};
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                Norm at = m.norm[(k + column + j) / WINDOWS];
                z[j] = fmaf(z[j], at.scale, at.shift);
                z[j] = z[j] < 0 ? 0.0f : z[j];
            }
            store_pieces<EXACT, DEEP>(
                m.left[buffer] + (i * THREADS + threadIdx.x) / QUADS * LINE + column,
                {z[0], z[1], z[2], z[3]});
        }
        __syncthreads();
        if (k + DEEP < last) load(k + DEEP);
        unsigned a_at = weft::shared_address(m.left[buffer] + (warp % 2 * 32 + lane % 16) * LINE +
                                             lane / 16 * 8);
        unsigned b_at =
            weft::shared_address(m.right[buffer] + (warp / 2 * COUNT * 8 + lane % 8) * LINE +
                                 lane / 8 % 2 * 8 + (EXACT ? lane / 16 * DEEP : 0));
        Stage<EXACT, 2, COUNT> stage;
        stage.begin();
#pragma unroll
        for (int step = 0; step < DEEP; step += 16) {
            unsigned a[2][PIECES<EXACT>][4], b[COUNT][PACKED<EXACT>];
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int p = 0; p < PIECES<EXACT>; ++p)
                    load_matrices<false>(
                        a[i][p], a_at + (i * 16 * LINE + p * DEEP + step) * (int)sizeof(Half));
#pragma unroll
            for (int i = 0; i < COUNT; ++i)
                load_matrices<false>(b[i], b_at + (i * 8 * LINE + step) * (int)sizeof(Half));
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
                int row = warp % 2 * 32 + i * 16 + j * 8 + group,
                    column = (warp / 2 * COUNT + c) * 8 + t * 2;
                if (row < rows) {
                    long long to = ((long long)blockIdx.x * count + begin + row) * HIDDEN + column;
                    *reinterpret_cast<float2*>(partial + to) = {
                        sums[i][c][2 * j] * (1 / HIDDEN_SCALE),
                        sums[i][c][2 * j + 1] * (1 / HIDDEN_SCALE)};
                }
            }
}
