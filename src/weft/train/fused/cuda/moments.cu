// Sums over the batch of products of neighbouring pixels, from which the statistics of the first
// convolution follow: its results are linear in the pixels. Row t of the moments has the sum of x[p
// + t] x[p + s] for every tap s, then the sum of x[p + t].
//
// The first blocks sum; the others write the second convolution's weights as its two products read
// them.
#include "net.cuh"

// Teams of warps take an image each.
constexpr int WARPS = 8, TEAMS = 4, THREADS = WARPS * TEAMS * 32, WIDE = SIDE + 2;
__device__ int threads = THREADS;

__device__ void sums_of_images(const float* __restrict__ pixels, float* __restrict__ moments,
                               int count, int blocks) {
    __shared__ float images[TEAMS][WIDE * WIDE + 1];
    __shared__ float parts[WARPS * TEAMS][16][16];
    constexpr int TEAM = WARPS * 32, LOADS = (PIXELS + TEAM - 1) / TEAM;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4,
        team = threadIdx.x / TEAM;
    float* image = images[team];
    clear(images[0], TEAMS * (WIDE * WIDE + 1));
    float sums[1][2][4] = {};
    // The tenth row is of ones: its products are plain sums. Further ones are of zeros.
    int low = group / 3 * WIDE + group % 3, high = 2 * WIDE + 2;
    float other = group == 1 ? 1.0f : 0.0f;
    float next[LOADS];
    auto load = [&](int n) {  // while the image before is summed
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int p = i * TEAM + threadIdx.x % TEAM;
            if (n < count && p < PIXELS) next[i] = pixels[(long long)n * PIXELS + p];
        }
    };
    int first = blockIdx.x + team * blocks, step = TEAMS * blocks;
    load(first);
    // All teams make as many rounds as the first: they wait for each other.
    for (int n = first, begin = blockIdx.x; begin < count; n += step, begin += step) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int p = i * TEAM + threadIdx.x % TEAM;
            if (n < count && p < PIXELS) image[(p / SIDE + 1) * WIDE + p % SIDE + 1] = next[i];
        }
        __syncthreads();
        load(n + step);
        if (n >= count) continue;
        float part[1][2][4] = {};
#pragma unroll 2
        for (int k = warp % WARPS * 8; k < PIXELS; k += WARPS * 8) {
            float x[1][4];
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                int p = k + t + 4 * j, at = p + p / SIDE * 2;
                x[0][2 * j] = image[at + low];
                x[0][2 * j + 1] = group ? other : image[at + high];
            }
            float y[2][2] = {{x[0][0], x[0][2]}, {x[0][1], x[0][3]}};
            products<true>(part, x, y);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[0][i / 4][i % 4] += part[0][i / 4][i % 4];
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
        parts[warp][group + i % 4 / 2 * 8][i / 4 * 8 + t * 2 + i % 2] = sums[0][i / 4][i % 4];
    __syncthreads();
    for (int i = threadIdx.x; i < MOMENTS; i += THREADS) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS * TEAMS; ++w) sum += parts[w][i / (TAPS + 1)][i % (TAPS + 1)];
        moments[blockIdx.x * MOMENTS + i] = sum;
    }
}

// The weights [second][first][tap] as the right operand of a product: forward [tap, first] x
// [second], backward [flipped tap, second] x [first].
template <bool EXACT, bool BACKWARD>
__device__ void pack(const float* __restrict__ weight, unsigned* __restrict__ packed, int block) {
    constexpr int ROWS = BACKWARD ? SECOND : FIRST, COLUMNS = BACKWARD ? FIRST : SECOND;
    int i = block * THREADS + threadIdx.x, lane = i % 32;
    if (i >= SECOND * DEPTH / 4) return;
    int row = i / 32 / (COLUMNS / 8) * 16 + lane % 4 * 2,
        column = i / 32 % (COLUMNS / 8) * 8 + lane / 4, tap = row / ROWS;
    auto at = [&](int k) {
        int out = BACKWARD ? k : column, in = BACKWARD ? column : k;
        return WEIGHT_SCALE * weight[(out * FIRST + in) * TAPS + (BACKWARD ? TAPS - 1 - tap : tap)];
    };
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        int k = row % ROWS + j * 8;
        unsigned piece[PIECES<EXACT>];
        pieces<EXACT>(at(k), at(k + 1), piece);
#pragma unroll
        for (int p = 0; p < PIECES<EXACT>; ++p) packed[i * PACKED<EXACT> + p * 2 + j] = piece[p];
    }
}

template <bool EXACT>
__global__ void __launch_bounds__(THREADS)
    moments(const float* __restrict__ pixels, const float* __restrict__ weight,
            float* __restrict__ sums, unsigned* __restrict__ forward,
            unsigned* __restrict__ backward, int count, int blocks) {
    if (blockIdx.x < blocks) sums_of_images(pixels, sums, count, blocks);
    else {
        pack<EXACT, false>(weight, forward, blockIdx.x - blocks);
        pack<EXACT, true>(weight, backward, blockIdx.x - blocks);
    }
}
