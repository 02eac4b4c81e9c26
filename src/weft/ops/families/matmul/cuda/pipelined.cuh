// Tiles of a matrix product on Hopper: one thread copies boxes of the operands by tensor maps into
// a ring of stages, 128 bytes of K at a time, and warpgroups multiply them. The shape of the
// pipeline follows CUTLASS's warp-specialised kernels.
#pragma once
#include <weft/pipeline.cuh>
#include <weft/problem.cuh>
#include <weft/wgmma.cuh>

using namespace weft;

// Elements of a product: `STEP` are 128 bytes, and `multiply` takes 32 bytes of K. Those of 16
// bits; k_major.cuh has others.
template <class T>
struct Elements {
    static constexpr int STEP = 64;

    template <bool A_COLUMNS, bool B_COLUMNS, int N>
    static __device__ void multiply(float (&c)[N][4], unsigned long long a, unsigned long long b,
                                    bool accumulate) {
        wgmma<T, A_COLUMNS, B_COLUMNS>(c, a, b, accumulate);
    }
};

// One operand of a stage: B elements along M or N, and 128 bytes of K. KMAJOR: K is contiguous in
// memory, and a slab has B rows of 128 bytes; else elements have 16 bits, and slabs have 64 rows of
// K, and 64 elements along M or N.
template <int B, bool KMAJOR>
struct BoxSide {
    static constexpr bool TRANSPOSE = !KMAJOR;
    static constexpr int BYTES = (KMAJOR ? B : ceil_div(B, 64) * 64) * 128;

    // Copies a step of K from k on, of elements from `along` on.
    static __device__ void load(unsigned tile, const TensorMap& map, Barrier& full, int along,
                                int k, int batch) {
        if constexpr (KMAJOR) {
            load_box(tile, map, full, k, along, batch);
        } else {
#pragma unroll
            for (int i = 0; i < BYTES; i += slab_bytes(64))
                load_box(tile + i, map, full, along + i / 128, k, batch);
        }
    }
    // The descriptor of elements from `along`, a multiple of 64, and from 2 k bytes of K on, a
    // multiple of 32.
    static __device__ unsigned long long operand(unsigned tile, int along, int k) {
        return KMAJOR ? wgmma_rows(tile + along * 128 + k * 2)
                      : wgmma_columns<64>(tile + along * 128 + k * 128);
    }
};

// A tile of BM x BN results. A consumer, a warpgroup, has 64 of its rows, and a warp 16.
template <class T, int BM, int BN, int STAGES, bool A_KMAJOR, bool B_KMAJOR>
struct PipelinedTile {
    static constexpr int CONSUMERS = BM / 64, ACROSS = BN / 8;
    using A = BoxSide<BM, A_KMAJOR>;
    using B = BoxSide<BN, B_KMAJOR>;
    static constexpr int STEP = Elements<T>::STEP;  // K of a stage
    static constexpr int STAGE = A::BYTES + B::BYTES;
    using Ring = Stages<STAGES>;

    float of[ACROSS][4];
    Turn<STAGES> turn;

    // Fills stages with `steps` steps of K, from k on; one thread calls it.
    static __device__ void fill(const TensorMap& a, const TensorMap& b, unsigned ring, Ring& stages,
                                Turn<STAGES>& turn, int row, int column, int2 batch, int k,
                                int steps) {
#pragma unroll 1
        for (; steps > 0; --steps, k += STEP, turn.next()) {
            Barrier& full = stages.full[turn.stage];
            unsigned tile = ring + turn.stage * STAGE;
            stages.wait_empty(turn);
            full.arrive_expecting(STAGE);
            A::load(tile, a, full, row, k, batch.x);
            B::load(tile + A::BYTES, b, full, column, k, batch.y);
        }
    }
    __device__ void multiply_stage(unsigned tile, int consumer, bool fresh) {
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < 64; k += 16)
            Elements<T>::template multiply<A::TRANSPOSE, B::TRANSPOSE>(
                of, A::operand(tile, consumer * 64, k), B::operand(tile + A::BYTES, 0, k),
                !fresh || k > 0);
        wgmma_commit();
    }
    static __device__ void release(Ring& stages, int stage) {
        if (lane_index() == 0) stages.empty[stage].arrive();
    }
    // Products of one step are under way while the next ones are issued; then the stage before is
    // free.
    __device__ void multiply(unsigned ring, Ring& stages, int consumer, int steps) {
#pragma unroll 1
        for (int step = 0; step < steps; ++step, turn.next()) {
            stages.wait_full(turn);
            multiply_stage(ring + turn.stage * STAGE, consumer, step == 0);
            wgmma_wait<1>();
            if (step) release(stages, turn.before());
        }
        wgmma_wait<0>();
        wgmma_results(of);
        release(stages, turn.before());
    }
};
