// Weight-only products with up to 16 tokens: memory-bound, each weight is read once, straight to
// registers. Tensor cores multiply, with the weights as A and the tokens as B, so that a weight
// costs two to three instructions of a lane whatever the number of tokens. What is read of x is
// under way as long as the weights: a lane that waited for it in every step took twice the time.
//
// Where there are fewer than eight tokens, the eight columns of B are slices of K as well: column
// c holds token c / SLICES and slice c % SLICES. Row r of A holds slice r % SLICES of a row of the
// weight. Results whose slices differ are dropped, and the others are added. A warp thus reads
// SLICES * 64 bytes that are neighbours, and the k of a lane's weights are those of its x.
#include <weft/mma.cuh>
#include "problem.cuh"

// UNITS    eights of weights in a load
// PAIRS    pairs of rows of a lane, each a row of both halves of A: they share what is read of x
// SHARE    warps of a block that share a row
// AHEAD    steps whose weights are under way
// WHOLE    K is a multiple of what a warp reads of a row in a step
// GROUPED  sums of each step have a scale of their own; else a row has one
template <Weights F, class T, class S, int TOKENS, int UNITS, int PAIRS, int SHARE, int AHEAD,
          bool WHOLE, bool GROUPED, bool ZERO>
__global__ void __launch_bounds__(256)
    skinny(const T* x, const void* weight, const S* scales, const S* zeros, const T* bias, T* y,
           const __grid_constant__ QuantisedProblem p) {
    constexpr int EIGHTS =
        TOKENS > 8 ? TOKENS / 8 : 1;  // of tokens: columns of B, one after another
    constexpr int ACROSS = TOKENS / EIGHTS, SLICES = 8 / ACROSS, EACH = 2 * PAIRS;
    constexpr int ROWS = EACH * ACROSS, TEAMS = 8 / SHARE;
    constexpr int LANE = 8 * UNITS, CHUNK = 4 * LANE, STEP = CHUNK * SLICES * SHARE;
    constexpr int WORDS = UNITS * WEIGHT_WORDS<F>;
    __shared__ float sums[8][TOKENS][ROWS];
    if (!p.constant) wait_for_kernels();
    int lane = lane_index(), warp = warp_index(), slice = lane / 4 % SLICES;
    int token = lane / 4 / SLICES, begin = warp % SHARE * SLICES * CHUNK;
    int steps = ceil_div(max(p.K - begin, 0), STEP);
    // The last warps begin earlier, so that all rows of a lane are as far apart: few registers hold
    // their addresses.
    int first = min(int(blockIdx.x * TEAMS + warp / SHARE) * ROWS, p.N - ROWS) + token;
    const unsigned char* from = row_of(weight, p, first);
    const S *scale = scales + first * p.scale_n, *zero = ZERO ? zeros + first * p.zero_n : nullptr;
    Vector<unsigned, WORDS> ahead[AHEAD][EACH];
    Vector<unsigned, 4> tokens[AHEAD][EIGHTS][UNITS];
    Group<S> groups[AHEAD][EACH];
    const T* mine = x + token * p.x_row;
    // All lanes of a warp take part in mma: they count steps, and x is 0 past the last k.
    auto fetch = [&](int set, int k, int left) {
        bool inside = WHOLE ? left > 0 : k < p.K;
        int group = GROUPED && inside ? group_of(k, p) : 0;
#pragma unroll
        for (int r = 0; r < EACH; ++r) {
            auto* at = from + (F == Weights::INT4 ? k / 2 : k) + r * ACROSS * p.weight_row;
            if (inside) ahead[set][r] = load_once<WORDS>(reinterpret_cast<const unsigned*>(at));
            else if (!WHOLE) ahead[set][r] = fill<WORDS>(0u);
            if constexpr (GROUPED)
                if (inside || !WHOLE) groups[set][r].read(scale, zero, p, r * ACROSS, group);
        }
    };
    auto fetch_tokens = [&](int set, int k, int left) {
#pragma unroll
        for (int i = 0; i < EIGHTS * UNITS; ++i) {
            int eight = i / UNITS, u = i % UNITS;
            bool there =
                (WHOLE ? left > 0 : k + u * 8 < p.K) && (TOKENS == 1 || eight * 8 + token < p.M);
            auto* at = reinterpret_cast<const unsigned*>(mine + eight * 8 * p.x_row + k + u * 8);
            tokens[set][eight][u] = there ? load<4>(at) : fill<4>(0u);
        }
    };
    float total[EIGHTS][PAIRS][4] = {}, part[EIGHTS][PAIRS][4] = {}, ones[EIGHTS][4] = {};
    auto flush = [&](const Group<S>(&group)[EACH]) {
#pragma unroll
        for (int i = 0; i < EIGHTS * PAIRS * 4; ++i) {
            int eight = i / 4 / PAIRS, pair = i / 4 % PAIRS;
            float& sum = part[eight][pair][i % 4];
            total[eight][pair][i % 4] +=
                group[2 * pair + i % 4 / 2].sum(sum, ZERO ? ones[eight][i % 4] : 0);
            sum = 0;
        }
#pragma unroll
        for (int i = 0; i < EIGHTS * 4; ++i) ones[i / 4][i % 4] = 0;
    };
    const Dequantiser<F, T> weights{p.bits};
    const unsigned all_ones[4] = {ONES<T>, ONES<T>, ONES<T>, ONES<T>};
    auto multiply = [&](int set) {
#pragma unroll
        for (int u = 0; u < UNITS; ++u) {
            unsigned b[EIGHTS][4];
#pragma unroll
            for (int eight = 0; eight < EIGHTS; ++eight) {
                arrange<F>(b[eight], &tokens[set][eight][u][0]);
                if constexpr (ZERO)
                    mma<T>(ones[eight], all_ones, b[eight]),
                        mma<T>(ones[eight], all_ones, b[eight] + 2);
            }
#pragma unroll
            for (int pair = 0; pair < PAIRS; ++pair) {
                unsigned low[4], high[4];
                weights.convert(low, &ahead[set][2 * pair][u * WEIGHT_WORDS<F>]);
                weights.convert(high, &ahead[set][2 * pair + 1][u * WEIGHT_WORDS<F>]);
#pragma unroll
                for (int i = 0; i < 4; i += 2) {
                    unsigned a[4] = {low[i], high[i], low[i + 1], high[i + 1]};
#pragma unroll
                    for (int eight = 0; eight < EIGHTS; ++eight)
                        mma<T>(part[eight][pair], a, b[eight] + i);
                }
            }
        }
        if constexpr (GROUPED) flush(groups[set]);
    };
    int k = begin + slice * CHUNK + lane % 4 * LANE;
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) fetch(i, k + i * STEP, steps - i);
    if (p.constant) wait_for_kernels();
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) fetch_tokens(i, k + i * STEP, steps - i);
    for (; steps > 0; steps -= AHEAD)
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (i < steps) multiply(i);
            fetch(i, k + AHEAD * STEP, steps - AHEAD - i);
            fetch_tokens(i, k + AHEAD * STEP, steps - AHEAD - i);
            k += STEP;
        }
    start_next_kernel();  // earlier, its blocks would take the place of others on some SMs
    if constexpr (!GROUPED) {
        Group<S> group[EACH];
#pragma unroll
        for (int r = 0; r < EACH; ++r) group[r].read(scale, zero, p, r * ACROSS, 0);
        flush(group);
    }
    // The results of a lane: of its rows, in columns 2 t and 2 t + 1.
#pragma unroll
    for (int i = 0; i < EIGHTS * EACH; ++i) {
        int eight = i / EACH, r = i % EACH, column = lane % 4 * 2, row = token + r * ACROSS;
        const float* found = total[eight][r / 2] + r % 2 * 2;
        if constexpr (SLICES > 1) {
            float value = column % SLICES == slice ? found[0] : 0;
            value += (column + 1) % SLICES == slice ? found[1] : 0;
#pragma unroll
            for (int mask = 1; mask < SLICES / 2; mask *= 2) value += shuffle_xor(value, mask);
#pragma unroll
            for (int mask = 4; mask < 4 * SLICES; mask *= 2) value += shuffle_xor(value, mask);
            if (slice == 0 && column % SLICES == 0) sums[warp][column / SLICES][row] = value;
        } else {
#pragma unroll
            for (int j = 0; j < 2; ++j) sums[warp][eight * 8 + column + j][row] = found[j];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TEAMS * ROWS * TOKENS; i += 256) {
        int row = i % (TEAMS * ROWS), m = i / (TEAMS * ROWS);
        int n = blockIdx.x * TEAMS * ROWS + row, begun = min(n - row % ROWS, p.N - ROWS);
        if (n >= p.N || m >= p.M) continue;
        float value = 0;
#pragma unroll
        for (int s = 0; s < SHARE; ++s) value += sums[row / ROWS * SHARE + s][m][n - begun];
        finish(y, bias, p, m, n, value);
    }
}
