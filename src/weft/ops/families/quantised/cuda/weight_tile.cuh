// Tiles of a weight-only product on Hopper: one thread copies boxes of quantised weights and of
// arranged tokens into a ring of stages, 128 of K at a time. Warpgroups convert weights to 16 bits
// in registers, where they are the A of wgmma. The stages are those of matmul/cuda/pipelined.cuh.
#pragma once
#include "../../matmul/cuda/multiply_tiles.cuh"
#include "problem.cuh"

// A tile of BM rows of the weight and BN tokens. A consumer, a warpgroup, has 64 of the rows. See
// arranged.cu for UNITS.
template <Weights F, class T, int BM, int BN, int STAGES, int UNITS>
struct WeightTile {
    static constexpr int CONSUMERS = BM / 64, ACROSS = BN / 8, STEP = 128;
    static constexpr int ROW = F == Weights::INT4 ? 64 : 128;  // bytes
    static constexpr int WEIGHTS = BM * ROW, SLAB = BN * 128, STAGE = WEIGHTS + 2 * SLAB;
    static constexpr int WORDS = WEIGHT_WORDS<F>, LOADED = UNITS * WORDS;
    using Sum = float;
    using Ring = Stages<STAGES>;

    float of[1][ACROSS][4];
    Turn<STAGES> turn;
    unsigned raw[2][4 * WORDS];  // the weights of a stage: of two rows, four eights each

    // Boxes are whole: those outside the matrices are zeros.
    static __device__ void load_weights(const OperandMaps& a, unsigned tile, Barrier& full, int row,
                                        int k) {
        load_box(tile, a.whole, full, F == Weights::INT4 ? k / 2 : k, row);
    }
    static __device__ void load_tokens(const OperandMaps& b, unsigned tile, Barrier& full,
                                       int column, int k) {
        load_box(tile + WEIGHTS, b.whole, full, k, column);
        load_box(tile + WEIGHTS + SLAB, b.whole, full, k + 64, column);
    }
    // Fills stages with `steps` steps of K, from k on; one thread calls it.
    static __device__ void fill(const OperandMaps& a, const OperandMaps& b, unsigned ring,
                                Ring& stages, Turn<STAGES>& turn, int row, int column, int2, int k,
                                int steps) {
#pragma unroll 1
        for (; steps > 0; --steps, k += STEP, turn.next()) {
            Barrier& full = stages.full[turn.stage];
            unsigned tile = ring + turn.stage * STAGE;
            stages.wait_empty(turn);
            full.arrive_expecting(STAGE);
            load_weights(a, tile, full, row, k);
            load_tokens(b, tile, full, column, k);
        }
    }
    // The same for the first tile of a block: copies of weights, which no kernel before writes,
    // begin before these kernels have ended.
    static __device__ void fill_early(const OperandMaps& a, const OperandMaps& b, unsigned ring,
                                      Ring& stages, Turn<STAGES>& turn, int row, int column,
                                      int2 batch, int k, int steps) {
        int ahead = min(steps, STAGES);
#pragma unroll 1
        for (int i = 0; i < ahead; ++i) {
            stages.full[i].arrive_expecting(STAGE);
            load_weights(a, ring + i * STAGE, stages.full[i], row, k + i * STEP);
        }
        wait_for_kernels();
#pragma unroll 1
        for (int i = 0; i < ahead; ++i, turn.next())
            load_tokens(b, ring + i * STAGE, stages.full[i], column, k + i * STEP);
        fill(a, b, ring, stages, turn, row, column, batch, k + ahead * STEP, steps - ahead);
    }
    static __device__ void release(Ring& stages, int stage) {
        __syncwarp();  // all lanes have read its weights
        if (lane_index() == 0) stages.empty[stage].arrive();
    }
    // Leaves `steps` stages to another consumer.
    __device__ void skip(int steps) { turn.skip(steps); }

    // Reads this lane's weights of a stage.
    __device__ void read(const unsigned char* weights, int consumer) {
        constexpr int BYTES = LOADED * 4, EACH = BYTES < 16 ? BYTES : 16;  // of a load
        int row = consumer * 64 + threadIdx.x % 128 / 32 * 16 + lane_index() / 4;
#pragma unroll
        for (int i = 0; i < 2 * 16 * WORDS / EACH; ++i) {
            int half = i / (16 * WORDS / EACH), piece = i % (16 * WORDS / EACH) * EACH;
            int at = (piece / BYTES * 4 + lane_index() % 4) * BYTES + piece % BYTES;
            auto from = load<EACH / 4>(reinterpret_cast<const unsigned*>(
                weights + swizzle<ROW>(row + half * 8, at / 16) + at % 16));
#pragma unroll
            for (int w = 0; w < EACH / 4; ++w) raw[half][piece / 4 + w] = from[w];
        }
    }
    // Starts the products of eight number `unit` of each lane: 32 of K.
    __device__ void multiply(const Dequantiser<F, T>& weights, unsigned tokens, int unit,
                             bool accumulate) {
        unsigned low[4], high[4];
        weights.convert(low, &raw[0][unit * WORDS]);
        weights.convert(high, &raw[1][unit * WORDS]);
        wgmma_begin();
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            unsigned a[4] = {low[2 * i], high[2 * i], low[2 * i + 1], high[2 * i + 1]};
            int step = 2 * unit + i;
            wgmma_left<T, false>(of[0], a, wgmma_rows(tokens + step / 4 * SLAB + step % 4 * 32),
                                 accumulate || i > 0);
        }
        wgmma_commit();
    }
};
