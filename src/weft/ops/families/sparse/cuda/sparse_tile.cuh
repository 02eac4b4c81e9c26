// Tiles of a product with a 2:4 sparse left operand on Hopper: one thread copies boxes of kept
// elements, of their metadata and of the dense operand into a ring of stages, 64 of K at a time,
// and warpgroups multiply them. The stages are those of matmul/cuda/pipelined.cuh.
#pragma once
#include <weft/cluster.cuh>
#include <weft/sparse.cuh>
#include "../../matmul/cuda/pipelined.cuh"

// The maps of a product: both operands, and metadata as rows of 128 words, one row for each 64 rows
// and 64 of K. `blocks` is the number of 64 rows, `deep` that of 64 of K.
struct SparseMaps {
    const TensorMap& values;
    OperandMaps dense;
    const TensorMap& metadata;
    int blocks, deep;
};

// A tile of BM x BN results, of which a consumer, a warpgroup, has 64 rows. CLUSTER blocks compute
// tiles below each other: each copies a part of the dense operand for all of them.
template <class T, int BM, int BN, int STAGES, int CLUSTER>
struct SparseTile {
    static constexpr int CONSUMERS = BM / 64, ACROSS = BN / 8, STEP = 64;
    static constexpr int DENSE = BN * 128, VALUES = BM * 64, WORDS = BM / 64 * 512;
    // Tiles begin at multiples of 1,024 bytes.
    static constexpr int STAGE = DENSE + VALUES + ceil_div(WORDS, 1024) * 1024;
    using Ring = Stages<STAGES>;
    using Dense = BoxSide<BN, true>;

    float of[ACROSS][4];
    Turn<STAGES> turn;

    // One thread calls it, before the barrier of the block or the cluster.
    static __device__ void init(Ring& stages) { stages.init(1, CONSUMERS * 4 * CLUSTER); }

    // Fills stages with all steps of K of a tile; one thread calls it.
    static __device__ void fill(const SparseMaps& maps, unsigned ring, Ring& stages,
                                Turn<STAGES>& turn, int row, int column, int block) {
        // Rows outside are zeros. The last cluster may have a block without rows: it multiplies
        // what the others share.
        int shared = CLUSTER > 1 ? DENSE : Dense::bytes(maps.dense, column);
#pragma unroll 1
        for (int step = 0; step < maps.deep; ++step, turn.next()) {
            Barrier& full = stages.full[turn.stage];
            unsigned tile = ring + turn.stage * STAGE;
            stages.wait_empty(turn);
            full.arrive_expecting(shared + VALUES + WORDS);
            if constexpr (CLUSTER > 1)
                load_box_multicast(tile + block * (DENSE / CLUSTER), maps.dense.whole, full,
                                   (1 << CLUSTER) - 1, step * STEP, column + block * (BN / CLUSTER),
                                   0);
            else Dense::load(tile, maps.dense, full, column, step * STEP, 0);
            load_box(tile + DENSE, maps.values, full, step * STEP / 2, row);
#pragma unroll
            for (int i = 0; i < BM / 64; ++i) {
                int at = min(row / 64 + i, maps.blocks - 1);  // metadata is never undefined
                load_box(tile + DENSE + VALUES + i * 512, maps.metadata, full, 0,
                         at * maps.deep + step);
            }
        }
    }
    // Frees a stage, in all blocks that copy into it. The lanes of the warp have read its metadata.
    static __device__ void release(Ring& stages, int stage) {
        __syncwarp();
        if (CLUSTER == 1 && lane_index() == 0) stages.empty[stage].arrive();
        if (CLUSTER > 1 && lane_index() < CLUSTER) stages.empty[stage].arrive_at(lane_index());
    }
    // Starts the products of a stage, of which `word` keeps the metadata until they have ended.
    __device__ void multiply_stage(const unsigned char* memory, unsigned ring, Ring& stages,
                                   int consumer, bool fresh, unsigned& word) {
        stages.wait_full(turn);
        int at = turn.stage * STAGE;
        word = reinterpret_cast<const unsigned*>(memory + at + DENSE + VALUES +
                                                 consumer * 512)[threadIdx.x % 128];
        unsigned dense = ring + at, values = dense + DENSE + consumer * 64 * 64;
        wgmma_begin();
        wgmma_sparse<T, 0>(of, wgmma_rows_64(values), wgmma_rows(dense), word, !fresh);
        wgmma_sparse<T, 1>(of, wgmma_rows_64(values + 32), wgmma_rows(dense + 64), word, true);
        wgmma_commit();
        wgmma_wait<1>();
        if (!fresh) release(stages, turn.before());
        turn.next();
    }
    // Multiplies all steps of K; `memory` is the ring. The products of one step are under way while
    // the next ones are issued, so steps take turns with two words of metadata.
    __device__ void multiply(const unsigned char* memory, unsigned ring, Ring& stages, int consumer,
                             int steps) {
        unsigned first, second;
        multiply_stage(memory, ring, stages, consumer, true, first);
#pragma unroll 1
        for (--steps; steps > 1; steps -= 2) {
            multiply_stage(memory, ring, stages, consumer, false, second);
            multiply_stage(memory, ring, stages, consumer, false, first);
        }
        if (steps) multiply_stage(memory, ring, stages, consumer, false, second);
        wgmma_wait<0>();
        wgmma_results(of);
        release(stages, turn.before());
    }
};
