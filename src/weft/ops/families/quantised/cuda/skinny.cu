// Weight-only products with up to eight tokens: memory-bound, each weight is read once, straight to
// registers. Tensor cores multiply, with the weights as A and the tokens as B, so that a weight
// costs about one instruction of a lane whatever the number of tokens.
//
// Where there are fewer than eight tokens, the eight columns of B are slices of K as well: column
// c holds token c / SLICES and slice c % SLICES. Row r of A holds slice r % SLICES of a row of the
// weight. Results whose slices differ are dropped, and the others are added. A warp thus reads
// SLICES * 64 bytes that are neighbours, and the k of a lane's weights are those of its x.
#include <weft/mma.cuh>
#include "problem.cuh"

// The weights of a lane for a step, of a row of each half of A, and the scales of their groups.
template <Weights F, class S, int UNITS>
struct Ahead {
    Vector<unsigned, UNITS * WEIGHT_WORDS<F>> weights[2];
    Group<S> group[2];
};

// UNITS   eights of weights in a load
// SHARE   warps of a block that share a row
// AHEAD   steps whose weights are under way
// GROUPED sums of each step have a scale of their own; else a row has one
template <Weights F, class T, class S, int TOKENS, int UNITS, int SHARE, int AHEAD, bool GROUPED,
          bool ZERO>
__global__ void __launch_bounds__(256)
    skinny(const T* x, const void* weight, const S* scales, const S* zeros, const T* bias, T* y,
           const __grid_constant__ QuantisedProblem p) {
    constexpr int SLICES = 8 / TOKENS, ROWS = 2 * TOKENS, TEAMS = 8 / SHARE;
    constexpr int LANE = 8 * UNITS, CHUNK = 4 * LANE, STEP = CHUNK * SLICES * SHARE;
    __shared__ float sums[8][TOKENS][ROWS];
    wait_for_kernels();
    start_next_kernel();
    int lane = lane_index(), warp = warp_index(), slice = lane / 4 % SLICES;
    int token = lane / 4 / SLICES, n0 = (blockIdx.x * TEAMS + warp / SHARE) * ROWS;
    int rows[2];
    const unsigned char* from[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        rows[h] = min(n0 + token + h * TOKENS, p.N - 1);  // those past the last one are dropped
        from[h] = row_of(weight, p, rows[h]);
    }
    const T* mine = x + token * p.x_row;
    float total[4] = {}, part[4] = {}, ones[4] = {};
    auto flush = [&](const Group<S>(&group)[2]) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            total[j] += group[j / 2].sum(part[j], ones[j]);
            part[j] = ones[j] = 0;
        }
    };
    Ahead<F, S, UNITS> ahead[AHEAD];
    auto fetch = [&](Ahead<F, S, UNITS>& to, int k) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if (k >= p.K) {  // x is 0 there
                to.weights[h] = fill<UNITS * WEIGHT_WORDS<F>>(0u);
                to.group[h] = {};
                continue;
            }
            auto* at = from[h] + (F == Weights::INT4 ? k / 2 : k);
            to.weights[h] =
                load_once<UNITS * WEIGHT_WORDS<F>>(reinterpret_cast<const unsigned*>(at));
            if constexpr (GROUPED)
                to.group[h].read(scales, ZERO ? zeros : nullptr, p, rows[h], group_of(k, p));
        }
    };
    auto multiply = [&](const Ahead<F, S, UNITS>& of, int k) {
        const unsigned all_ones[4] = {ONES<T>, ONES<T>, ONES<T>, ONES<T>};
#pragma unroll
        for (int u = 0; u < UNITS; ++u) {
            Vector<T, 8> eight;
            unsigned b[4], low[4], high[4];
            unsigned* words = reinterpret_cast<unsigned*>(&eight);
#pragma unroll
            for (int i = 0; i < 4; ++i) words[i] = 0;
            if (token < p.M && k + u * 8 < p.K) eight = load<8>(mine + k + u * 8);
            arrange<F>(b, words);
            dequantise<F, T>(low, &of.weights[0][u * WEIGHT_WORDS<F>]);
            dequantise<F, T>(high, &of.weights[1][u * WEIGHT_WORDS<F>]);
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                unsigned a[4] = {low[i], high[i], low[i + 1], high[i + 1]};
                mma<T>(part, a, b + i);
                if constexpr (ZERO) mma<T>(ones, all_ones, b + i);
            }
        }
        if constexpr (GROUPED) flush(of.group);
    };
    int k = (warp % SHARE * SLICES + slice) * CHUNK + lane % 4 * LANE;
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) fetch(ahead[i], k + i * STEP);
    // All lanes of a warp take part in mma: they count the steps from the k of its first lane on.
    int steps = ceil_div(max(p.K - warp % SHARE * SLICES * CHUNK, 0), STEP);
    for (; steps > 0; steps -= AHEAD)
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (i < steps) multiply(ahead[i], k);
            fetch(ahead[i], k + AHEAD * STEP);
            k += STEP;
        }
    if constexpr (!GROUPED) {
        Group<S> group[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) group[h].read(scales, ZERO ? zeros : nullptr, p, rows[h], 0);
        flush(group);
    }
    // The results of a lane: rows of both halves, columns 2 t and 2 t + 1.
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float value[2] = {total[2 * h], total[2 * h + 1]};
        if constexpr (SLICES > 1) {
            int column = lane % 4 * 2;
            value[0] = column % SLICES == slice ? value[0] : 0;
            value[0] += (column + 1) % SLICES == slice ? value[1] : 0;
#pragma unroll
            for (int mask = 1; mask < SLICES / 2; mask *= 2)
                value[0] += shuffle_xor(value[0], mask);
#pragma unroll
            for (int mask = 4; mask < 4 * SLICES; mask *= 2)
                value[0] += shuffle_xor(value[0], mask);
            if (slice == 0 && column % SLICES == 0)
                sums[warp][column / SLICES][token + h * TOKENS] = value[0];
        } else {
#pragma unroll
            for (int j = 0; j < 2; ++j) sums[warp][lane % 4 * 2 + j][token + h * TOKENS] = value[j];
        }
    }
    __syncthreads();
    n0 = blockIdx.x * TEAMS * ROWS;
    for (int i = threadIdx.x; i < TEAMS * ROWS * TOKENS; i += 256) {
        int row = i % (TEAMS * ROWS), m = i / (TEAMS * ROWS);
        if (n0 + row >= p.N || m >= p.M) continue;
        float value = 0;
#pragma unroll
        for (int s = 0; s < SHARE; ++s) value += sums[row / ROWS * SHARE + s][m][row % ROWS];
        finish(y, bias, p, m, n0 + row, value);
    }
}
