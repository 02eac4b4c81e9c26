// Weight-only products with more tokens: tiles of ROWS of the weight and TOKENS tokens. Weights and
// x arrive by cp.async in a ring of stages; weights become 16-bit elements in registers, as the A
// of mma.sync. Of 32 of K, lane t of four has the eight from 8 t on, of weights and of x alike.
#include <weft/async.cuh>
#include <weft/mma.cuh>
#include "../../matmul/cuda/parts.cuh"
#include "problem.cuh"

// A stage: 64 bytes of each row of the weight, and as many k of each token. Rows are apart so that
// the lanes of a load are in different banks.
template <Weights F, int ROWS, int TOKENS>
struct Stage {
    static constexpr int BYTES = 64, DEPTH = F == Weights::INT4 ? 128 : 64;
    static constexpr int PITCH = F == Weights::INT4 ? 80 : 96, X_PITCH = 2 * DEPTH + 64;
    static constexpr int X = ROWS * PITCH, SIZE = X + TOKENS * X_PITCH;
};

// FRAGMENTS: of 16 rows that a warp computes. See skinny.cu for GROUPED.
template <Weights F, class T, class S, int ROWS, int TOKENS, int FRAGMENTS, int STAGES,
          bool GROUPED, bool ZERO>
__global__ void __launch_bounds__(ROWS / FRAGMENTS * 2)
    tiled(const T* x, const void* weight, const S* scales, const S* zeros, const T* bias, T* y,
          float* parts, int* counters, const __grid_constant__ QuantisedProblem p) {
    using Of = Stage<F, ROWS, TOKENS>;
    constexpr int THREADS = ROWS / FRAGMENTS * 2, DEPTH = Of::DEPTH, COLUMNS = TOKENS / 8;
    constexpr int COUNT = FRAGMENTS * COLUMNS * 4, WORDS = WEIGHT_WORDS<F>;
    extern __shared__ __align__(16) unsigned char ring[];
    wait_for_kernels();
    start_next_kernel();
    int tiles_n = ceil_div(p.N, ROWS), tiles = tiles_n * ceil_div(p.M, TOKENS);
    int tile = blockIdx.x % tiles, split = blockIdx.x / tiles;
    int n0 = tile % tiles_n * ROWS, m0 = tile / tiles_n * TOKENS;
    int k0 = split * p.each, k1 = min(p.K, k0 + p.each), steps = ceil_div(k1 - k0, DEPTH);

    // Copies of 16 bytes; those outside are zeros.
    auto fetch = [&](int step) {
        unsigned stage = shared_address(ring) + step % STAGES * Of::SIZE;
        int k = k0 + step * DEPTH;
        if (step < steps) {
            for (int i = threadIdx.x; i < ROWS * 4; i += THREADS) {
                int row = i / 4, at = F == Weights::INT4 ? k / 2 : k;
                bool inside = n0 + row < p.N && k + i % 4 * (DEPTH / 4) < k1;
                copy_async<16>(
                    stage + row * Of::PITCH + i % 4 * 16,
                    row_of(weight, p, inside ? n0 + row : 0) + (inside ? at + i % 4 * 16 : 0),
                    inside);
            }
            for (int i = threadIdx.x; i < TOKENS * DEPTH / 8; i += THREADS) {
                int row = i / (DEPTH / 8), at = i % (DEPTH / 8) * 8;
                bool inside = m0 + row < p.M && k + at < k1;
                copy_async<16>(stage + Of::X + row * Of::X_PITCH + at * 2,
                               x + (inside ? (m0 + row) * p.x_row + k + at : 0), inside);
            }
        }
        commit_copies();
    };

    int lane = lane_index(), row0 = warp_index() * 16 * FRAGMENTS + lane / 4;
    float part[COUNT] = {}, total[GROUPED ? COUNT : 1] = {};
    float ones[ZERO ? COLUMNS * 4 : 1] = {};
    // Multiplies the sums by the scales of a group; adds them where there are more groups.
    auto flush = [&](int number) {
#pragma unroll
        for (int f = 0; f < 2 * FRAGMENTS; ++f) {
            Group<S> group;
            group.read(scales, ZERO ? zeros : nullptr, p, min(n0 + row0 + f * 8, p.N - 1), number);
#pragma unroll
            for (int i = 0; i < 2 * COLUMNS; ++i) {
                int at = (f / 2 * COLUMNS + i / 2) * 4 + f % 2 * 2 + i % 2;
                float sum = group.sum(part[at], ZERO ? ones[i / 2 * 4 + i % 2] : 0);
                if constexpr (GROUPED) total[at] += sum, part[at] = 0;
                else part[at] = sum;
            }
        }
        if constexpr (GROUPED && ZERO)
#pragma unroll
            for (int i = 0; i < COLUMNS * 4; ++i) ones[i] = 0;
    };
    const Dequantiser<F, T> weights{p.bits};
    const unsigned all_ones[4] = {ONES<T>, ONES<T>, ONES<T>, ONES<T>};
    auto multiply = [&](const unsigned char* stage, int chunk) {
        unsigned a[FRAGMENTS][2][4];
#pragma unroll
        for (int f = 0; f < 2 * FRAGMENTS; ++f) {
            const unsigned char* at = stage + (row0 + f * 8) * Of::PITCH;
            auto from = load<WORDS>(
                reinterpret_cast<const unsigned*>(at + (chunk * 4 + lane % 4) * 4 * WORDS));
            unsigned eight[4];
            weights.convert(eight, &from[0]);
#pragma unroll
            for (int i = 0; i < 4; ++i) a[f / 2][i / 2][i % 2 * 2 + f % 2] = eight[i];
        }
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const unsigned char* at = stage + Of::X + (c * 8 + lane / 4) * Of::X_PITCH;
            auto from =
                load<4>(reinterpret_cast<const unsigned*>(at + (chunk * 4 + lane % 4) * 16));
            unsigned b[4];
            arrange<F>(b, &from[0]);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
#pragma unroll
                for (int f = 0; f < FRAGMENTS; ++f)
                    mma<T>(part + (f * COLUMNS + c) * 4, a[f][i], b + i * 2);
                if constexpr (ZERO) mma<T>(ones + c * 4, all_ones, b + i * 2);
            }
        }
    };

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) fetch(s);
    int group = GROUPED && k0 < k1 ? group_of(k0, p) : 0;
    int left = GROUPED ? (group + 1) * p.group - k0 : 0;
    for (int step = 0; step < steps; ++step) {
        wait_copies<STAGES - 2>();
        __syncthreads();  // the stage is there, and all have read the one before
        fetch(step + STAGES - 1);
#pragma unroll
        for (int chunk = 0; chunk < DEPTH / 32; ++chunk) {
            multiply(ring + step % STAGES * Of::SIZE, chunk);
            if constexpr (GROUPED)
                if ((left -= 32) == 0 && group < p.groups) {
                    flush(group++);
                    left = p.group;
                }
        }
    }
    wait_all_copies();
    if constexpr (GROUPED) {
        if (left != p.group && group < p.groups) flush(group);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) part[i] = total[i];
    } else {
        flush(0);
    }
    if (p.splits > 1 && !join_parts<THREADS>(part, parts, counters, tile, split, p.splits)) return;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        int n = n0 + row0 + i / (COLUMNS * 4) * 16 + i % 4 / 2 * 8;
        int m = m0 + i / 4 % COLUMNS * 8 + c_column(i % 4);
        if (n < p.N && m < p.M) finish(y, bias, p, m, n, part[i]);
    }
}
