// Weight-only products with up to 16 tokens: memory-bound, each weight is read once, straight to
// registers. Tensor cores multiply (skinny_sums.cuh), so that a weight costs two to three
// instructions of a lane whatever the number of tokens. What is read of x is under way as long as
// the weights: a lane that waited for it in every step took twice the time.
#include "skinny_sums.cuh"

// SHARE    warps of a block that share a row
// AHEAD    steps whose weights are under way
// WHOLE    K is a multiple of what a warp reads of a row in a step
// GROUPED  sums of each step have a scale of their own; else a row has one
// See skinny_sums.cuh for others.
template <Weights F, class T, class S, int TOKENS, int UNITS, int PAIRS, int SHARE, int AHEAD,
          bool WHOLE, bool GROUPED, bool ZERO>
__global__ void __launch_bounds__(256)
    skinny(const T* x, const void* weight, const S* scales, const S* zeros, const T* bias, T* y,
           const __grid_constant__ QuantisedProblem p) {
    using Sums = SkinnySums<F, T, S, TOKENS, UNITS, PAIRS, ZERO>;
    constexpr int EIGHTS = Sums::EIGHTS, ACROSS = Sums::ACROSS, EACH = Sums::EACH;
    constexpr int ROWS = Sums::ROWS, TEAMS = 8 / SHARE, STEP = Sums::STEP * SHARE;
    __shared__ float sums[8][TOKENS][ROWS];
    if (!p.constant) wait_for_kernels();
    int lane = lane_index(), warp = warp_index();
    int slice = Sums::slice(lane), token = Sums::token(lane);
    int begin = warp % SHARE * Sums::STEP;
    int steps = ceil_div(max(p.K - begin, 0), STEP);
    // The last warps begin earlier, so that all rows of a lane are as far apart: few registers hold
    // their addresses.
    int first = min(int(blockIdx.x * TEAMS + warp / SHARE) * ROWS, p.N - ROWS) + token;
    const unsigned char* from = row_of(weight, p, first);
    const S *scale = scales + first * p.scale_n, *zero = ZERO ? zeros + first * p.zero_n : nullptr;
    typename Sums::Lane ahead[AHEAD][EACH];
    typename Sums::Tokens tokens[AHEAD];
    Group<S> groups[AHEAD][EACH];
    const T* mine = x + token * p.x_row;
    // All lanes of a warp take part in mma: they count steps, and x is 0 past the last k.
    auto fetch = [&](int set, int k, int left) {
        bool inside = WHOLE ? left > 0 : k < p.K;
        int group = GROUPED && inside ? group_of(k, p) : 0;
#pragma unroll
        for (int r = 0; r < EACH; ++r) {
            auto* at = from + (F == Weights::INT4 ? k / 2 : k) + r * ACROSS * p.weight_row;
            if (inside)
                ahead[set][r] = load_once<Sums::WORDS>(reinterpret_cast<const unsigned*>(at));
            else if (!WHOLE) ahead[set][r] = fill<Sums::WORDS>(0u);
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
    Sums all;
    const Dequantiser<F, T> weights{p.bits};
    auto multiply = [&](int set) {
        all.multiply(weights, ahead[set], tokens[set]);
        if constexpr (GROUPED) all.flush(groups[set]);
    };
    int k = begin + slice * Sums::CHUNK + lane % 4 * Sums::LANE;
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
        all.flush(group);
    }
    all.results(lane, [&](int m, int row, float value) { sums[warp][m][row] = value; });
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
