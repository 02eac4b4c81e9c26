// Weight-only products on Hopper with more tokens: C = W x, whose columns are tokens.
#include "weight_tile.cuh"

// The sums of a tile; see TensorSums of multiply_tiles.cuh. GROUPED: sums of 32 UNITS of K have
// scales of their own. ZERO: `ones` has the sums of x over as much, rows of `pitch` tokens.
template <Weights F, class T, class Scale, class S, int UNITS, bool GROUPED, bool ZERO>
struct WeightSums : TensorSums<T, S, true, true> {
    using Tile = WeightTile<F, T, S::BM, S::BN, S::STAGES, UNITS>;
    using Ring = typename Tile::Ring;
    static_assert(GROUPED || !ZERO, "zero points multiply sums of groups");

    const Scale *scales, *zeros;
    const float* ones;
    int pitch, begin_k;  // the first k of this block
    const QuantisedProblem& q;
    int rows[2], column;
    Group<Scale> of_rows[2];

    __device__ void read_scales(int k) {
        int group = GROUPED ? group_of(min(k, q.K - 1), q) : 0;
#pragma unroll
        for (int i = 0; i < 2; ++i)
            of_rows[i].read(scales, ZERO ? zeros : nullptr, q, rows[i], group);
    }
    __device__ void fetch(const Problem& p, const Work& work, int row, int) {
#pragma unroll
        for (int i = 0; i < 2; ++i) rows[i] = min(row + c_row(2 * i), p.M - 1);
        column = work.column;
        if constexpr (!GROUPED) read_scales(0);
    }
    __device__ void start(Tile& tile, unsigned ring, Ring& stages, int consumer, int steps,
                          unsigned char* room) {
        const unsigned char* memory = room - S::STAGES * Tile::STAGE;
        const Dequantiser<F, T> weights{q.bits};
        float sums[GROUPED ? Tile::ACROSS : 1][4] = {};
        int k = begin_k;
        stages.wait_full(tile.turn);
        tile.read(memory + tile.turn.stage * Tile::STAGE, consumer);
#pragma unroll 1
        for (int left = steps; left > 0; --left) {
            int stage = tile.turn.stage;
            unsigned tokens = ring + stage * Tile::STAGE + Tile::WEIGHTS;
#pragma unroll
            for (int unit = 0; unit < 4; ++unit) {
                bool first = GROUPED ? unit % UNITS == 0 : unit == 0 && left == steps;
                if (GROUPED && first) read_scales(k);
                tile.multiply(weights, tokens, unit, !first);
                if (unit == 3) next(tile, memory, stages, consumer, left > 1);
                if (unit == 3 || GROUPED && unit % UNITS == UNITS - 1) {
                    wgmma_wait<0>();
                    wgmma_results(tile.of[0]);
                }
                if (unit == 3) Tile::release(stages, stage);
                if constexpr (GROUPED)
                    if (unit % UNITS == UNITS - 1) flush(tile, sums, k), k += 32 * UNITS;
            }
        }
        if constexpr (GROUPED) memcpy(tile.of[0], sums, sizeof sums);
    }
    // Goes to the next stage, and reads its weights beside the products of this one. The products
    // of a stage end in it: the compiler makes others wait whose registers are written meanwhile.
    __device__ void next(Tile& tile, const unsigned char* memory, Ring& stages, int consumer,
                         bool more) {
        tile.turn.next();
        if (!more) return;
        stages.wait_full(tile.turn);
        tile.read(memory + tile.turn.stage * Tile::STAGE, consumer);
    }
    // Adds the sums of a group, times its scales.
    template <int N>
    __device__ void flush(Tile& tile, float (&sums)[N][4], int k) {
        const float* from = ones + k / (32 * UNITS) * (long long)pitch + column + c_column(0);
#pragma unroll
        for (int n = 0; n < N; ++n) {
            Vector<float, 2> one = {};
            if (ZERO && column + n * 8 + c_column(0) < pitch) one = load<2>(from + n * 8);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                sums[n][i] += of_rows[i / 2].sum(tile.of[0][n][i], one[i % 2]);
        }
    }
    __device__ void finish(Tile&, Ring&) {}
    template <int N>
    __device__ void complete(const float (&of)[N][4], float (&results)[N][4], unsigned char*) {
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                results[n][i] = GROUPED ? of[n][i] : of_rows[i / 2].sum(of[n][i], 0);
    }
};

template <Weights F, class T, class Scale, class S, int UNITS, bool GROUPED, bool ZERO, bool WHOLE,
          int BIAS>
__device__ void multiply_weights(const TensorMap& W, const TensorMap& x, const Scale* scales,
                                 const Scale* zeros, const float* ones, int pitch, const T* bias,
                                 T* y, const QuantisedProblem& q, const Problem& p) {
    int begin = Walk<S::SPLITS>(p, 128).begin * 128;
    WeightSums<F, T, Scale, S, UNITS, GROUPED, ZERO> sums{{}, scales, zeros, ones, pitch, begin, q};
    multiply_tiles<S, Results<T, true, WHOLE, 0, BIAS>>({W, W, p.M}, {x, x, p.N}, W, bias, y, p,
                                                        sums);
}

#define ARGUMENTS                                                                                  \
    const __grid_constant__ TensorMap W, const __grid_constant__ TensorMap x, const Scale *scales, \
        const Scale *zeros, const float *ones, int pitch, const T *bias, T *y,                     \
        const __grid_constant__ QuantisedProblem q, const __grid_constant__ Problem p

// A block for an SM, and RESIDENT blocks for an SM: see matmul/cuda/pipelined.cu.
template <Weights F, class T, class Scale, int BM, int BN, int STAGES, int SPLITS, int UNITS,
          bool GROUPED, bool ZERO, bool WHOLE, int BIAS>
__global__ void __launch_bounds__(BM * 2 + 128, 1) pipelined(ARGUMENTS) {
    multiply_weights<F, T, Scale, Schedule<BM, BN, STAGES, 1, SPLITS>, UNITS, GROUPED, ZERO, WHOLE,
                     BIAS>(W, x, scales, zeros, ones, pitch, bias, y, q, p);
}

template <Weights F, class T, class Scale, int BM, int BN, int STAGES, int RESIDENT, int SPLITS,
          int UNITS, bool GROUPED, bool ZERO, bool WHOLE, int BIAS>
__global__ void __maxnreg__((Registers<BM / 16 + 1, RESIDENT>::LAUNCH))
    pipelined_beside(ARGUMENTS) {
    multiply_weights<F, T, Scale, Schedule<BM, BN, STAGES, RESIDENT, SPLITS>, UNITS, GROUPED, ZERO,
                     WHOLE, BIAS>(W, x, scales, zeros, ones, pitch, bias, y, q, p);
}
