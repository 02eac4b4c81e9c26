// Tiles of a matrix product on Hopper: one thread copies boxes of the operands by tensor maps into
// a ring of stages, 128 bytes of K at a time, and warpgroups multiply them. The shape of the
// pipeline follows CUTLASS's warp-specialised kernels.
#pragma once
#include <weft/early_launch.cuh>
#include <weft/pipeline.cuh>
#include <weft/problem.cuh>
#include <weft/wgmma.cuh>

using namespace weft;

// Elements of a product: `STEP` are 128 bytes, and `multiply` takes 32 bytes of K and adds to a
// `Sum`. Those of 16 bits; k_major.cuh has others.
template <class T>
struct Elements {
    using Sum = float;
    static constexpr int STEP = 64;

    template <bool A_COLUMNS, bool B_COLUMNS, int N>
    static __device__ void multiply(float (&c)[N][4], unsigned long long a, unsigned long long b,
                                    bool accumulate) {
        wgmma<T, A_COLUMNS, B_COLUMNS>(c, a, b, accumulate);
    }
};

// The maps of an operand: `whole` has the boxes of tiles, and `edge` those of the last tile if only
// a part of it is in the matrix, which has `extent` elements along M or N. Rows that
// copies fill by zeros belong to no result; with them, tiles of few rows were slower on an H200.
struct OperandMaps {
    const TensorMap &whole, &edge;
    int extent;
};

// One operand of a stage: B elements along M or N, and 128 bytes of K. KMAJOR: K is contiguous in
// memory, and a slab has B rows of 128 bytes; else elements have 16 bits, and slabs have 64 rows of
// K, and 64 elements along M or N.
template <int B, bool KMAJOR>
struct BoxSide {
    static constexpr bool TRANSPOSE = !KMAJOR;
    static constexpr int BYTES = (KMAJOR ? B : ceil_div(B, 64) * 64) * 128;

    // The bytes of a stage of elements from `along` on. The rest of the stage is not written: it
    // belongs to results that are not stored.
    static __device__ int bytes(const OperandMaps& maps, int along) {
        int rows = min(maps.extent - along, B);
        return (KMAJOR ? rows : ceil_div(rows, 64) * 64) * 128;
    }
    // Copies a step of K from k on, of elements from `along` on.
    static __device__ void load(unsigned tile, const OperandMaps& maps, Barrier& full, int along,
                                int k, int batch) {
        if constexpr (KMAJOR) {
            const TensorMap& map = along + B <= maps.extent ? maps.whole : maps.edge;
            load_box(tile, map, full, k, along, batch);
        } else {
#pragma unroll
            for (int i = 0; i < BYTES; i += slab_bytes(64))
                if (i == 0 || along + i / 128 < maps.extent)
                    load_box(tile + i, maps.whole, full, along + i / 128, k, batch);
        }
    }
    // The descriptor of elements from `along`, a multiple of 64, and from 2 k bytes of K on, a
    // multiple of 32.
    static __device__ unsigned long long operand(unsigned tile, int along, int k) {
        return KMAJOR ? wgmma_rows(tile + along * 128 + k * 2)
                      : wgmma_columns<64>(tile + along * 128 + k * 128);
    }
};

// No other products.
struct NoMore {
    __device__ void operator()(int, unsigned long long, bool) const {}
};

// A tile of BM x BN results. A consumer, a warpgroup, has DOWN times 64 of its rows, and a warp 16
// of each 64.
template <class T, int BM, int BN, int STAGES, bool A_KMAJOR, bool B_KMAJOR, int DOWN = 1>
struct PipelinedTile {
    static constexpr int CONSUMERS = BM / 64 / DOWN, ACROSS = BN / 8;
    using A = BoxSide<BM, A_KMAJOR>;
    using B = BoxSide<BN, B_KMAJOR>;
    using Sum = typename Elements<T>::Sum;
    static constexpr int STEP = Elements<T>::STEP;  // K of a stage
    static constexpr int STAGE = A::BYTES + B::BYTES;
    using Ring = Stages<STAGES>;

    Sum of[DOWN][ACROSS][4];
    Turn<STAGES> turn;

    // Fills stages with `steps` steps of K, from k on; one thread calls it.
    static __device__ void fill(const OperandMaps& a, const OperandMaps& b, unsigned ring,
                                Ring& stages, Turn<STAGES>& turn, int row, int column, int2 batch,
                                int k, int steps) {
        int bytes = A::bytes(a, row) + B::bytes(b, column);
#pragma unroll 1
        for (; steps > 0; --steps, k += STEP, turn.next()) {
            Barrier& full = stages.full[turn.stage];
            unsigned tile = ring + turn.stage * STAGE;
            stages.wait_empty(turn);
            full.arrive_expecting(bytes);
            A::load(tile, a, full, row, k, batch.x);
            B::load(tile + A::BYTES, b, full, column, k, batch.y);
        }
    }
    // The same for the first tile of a block whose A no kernel before writes: copies of A into the
    // free stages begin before these kernels have ended.
    static __device__ void fill_early(const OperandMaps& a, const OperandMaps& b, unsigned ring,
                                      Ring& stages, Turn<STAGES>& turn, int row, int column,
                                      int2 batch, int k, int steps) {
        int bytes = A::bytes(a, row) + B::bytes(b, column), ahead = min(steps, STAGES);
#pragma unroll 1
        for (int i = 0; i < ahead; ++i) {
            stages.full[i].arrive_expecting(bytes);
            A::load(ring + i * STAGE, a, stages.full[i], row, k + i * STEP, batch.x);
        }
        wait_for_kernels();
#pragma unroll 1
        for (int i = 0; i < ahead; ++i, turn.next())
            B::load(ring + i * STAGE + A::BYTES, b, stages.full[i], column, k + i * STEP, batch.y);
        fill(a, b, ring, stages, turn, row, column, batch, k + ahead * STEP, steps - ahead);
    }
    // `more` starts other products of the same rows of A: those of of[i] have descriptor `a`.
    template <class More = NoMore>
    __device__ void multiply_stage(unsigned tile, int consumer, bool fresh, More more = {}) {
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < 64; k += 16)
#pragma unroll
            for (int i = 0; i < DOWN; ++i) {
                unsigned long long a = A::operand(tile, (consumer * DOWN + i) * 64, k);
                bool accumulate = !fresh || k > 0;
                Elements<T>::template multiply<A::TRANSPOSE, B::TRANSPOSE>(
                    of[i], a, B::operand(tile + A::BYTES, 0, k), accumulate);
                more(i, a, accumulate);
            }
        wgmma_commit();
    }
    static __device__ void release(Ring& stages, int stage) {
        if (lane_index() == 0) stages.empty[stage].arrive();
    }
    // Products of one step are under way while the next ones are issued; then the stage before is
    // free.
    template <class More = NoMore>
    __device__ void start(unsigned ring, Ring& stages, int consumer, int steps, More more = {}) {
#pragma unroll 1
        for (int step = 0; step < steps; ++step, turn.next()) {
            stages.wait_full(turn);
            multiply_stage(ring + turn.stage * STAGE, consumer, step == 0, more);
            wgmma_wait<1>();
            if (step) release(stages, turn.before());
        }
    }
    // Waits for the last products; now `of` may be read.
    __device__ void finish(Ring& stages) {
        wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < DOWN; ++i) wgmma_results(of[i]);
        release(stages, turn.before());
    }
    // Leaves `steps` stages to another consumer.
    __device__ void skip(int steps) { turn.skip(steps); }
};
