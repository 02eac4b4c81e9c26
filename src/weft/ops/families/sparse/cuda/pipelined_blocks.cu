// Products of a block-sparse matrix (BSR) and a dense one on Hopper, of 16-bit elements: one thread
// copies blocks and rows of the dense operand by tensor maps into a ring of stages, and warpgroups
// multiply them.
#include <weft/block.cuh>
#include <weft/early_launch.cuh>
#include "../../matmul/cuda/multiply_tiles.cuh"
#include "blocks.cuh"

// A block computes SIZE rows, one row of blocks, and BN columns. The rows of the dense operand
// begin at multiples of 16 bytes.
template <class T, class I, int SIZE, int BN, int STAGES, int RESIDENT>
__global__ void __launch_bounds__(SIZE * 2 + 128, RESIDENT)
    blocks_pipelined(const __grid_constant__ TensorMap values,
                     const __grid_constant__ TensorMap dense, const I* crow, const I* col, T* out,
                     const __grid_constant__ BlockSizes s, const __grid_constant__ Problem p) {
    using G = PipelinedTile<T, SIZE, BN, STAGES, true, false>;
    constexpr int WARPS = G::CONSUMERS * 4, THREADS = WARPS * 32;
    using Stored = ResultStore<T, false, true, 0, 32>;
    using Held = Registers<WARPS + 4, RESIDENT>;
    extern __shared__ __align__(1024) unsigned char bytes[];
    __shared__ typename G::Ring stages;
    unsigned ring = slab_aligned(shared_address(bytes));
    int at = blockIdx.x / p.tiles_n, column = blockIdx.x % p.tiles_n * BN;
    if (threadIdx.x == 0) stages.init(1, G::CONSUMERS * 4);
    __syncthreads();
    start_next_kernel();
    wait_for_kernels();
    BlockSteps<I, SIZE, G::STEP> steps(crow, col, at);
    if (warpgroup_index() == G::CONSUMERS) {
        if constexpr (Held::MOVED) fewer_registers<Held::COPYING>();
        if (threadIdx.x != THREADS || steps.count == 0) return;
        OperandMaps left{values, values, SIZE}, right{dense, dense, p.N};
        int amount = G::A::bytes(left, 0) + G::B::bytes(right, column);
        Turn<STAGES> turn;
        // Indices are read a step ahead: copies do not wait for them.
        long long next = steps.dense_row(0, s);
#pragma unroll 1
        for (int step = 0; step < steps.count; ++step, turn.next()) {
            int row = int(next);
            if (step + 1 < steps.count) next = steps.dense_row(step + 1, s);
            Barrier& full = stages.full[turn.stage];
            unsigned tile = ring + turn.stage * G::STAGE;
            stages.wait_empty(turn);
            full.arrive_expecting(amount);
            G::A::load(tile, left, full, 0, steps.within(step), int(steps.block(step)));
            G::B::load(tile + G::A::BYTES, right, full, column, row, 0);
        }
        return;
    }
    if constexpr (Held::MOVED) more_registers<Held::COMPUTING>();
    G tile;
    if (steps.count) {
        tile.start(ring, stages, warpgroup_index(), steps.count);
        tile.finish(stages);
    } else {
        memset(tile.of, 0, sizeof tile.of);
    }
    int warp = threadIdx.x / 32;
    T* staging = reinterpret_cast<T*>(bytes + (ring - shared_address(bytes)) + STAGES * G::STAGE) +
                 warp * Stored::ELEMENTS;
    TileBias<T, NO_BIAS, BN> none;
    Stored::store(tile.of[0], staging, out, none, p, at * SIZE + warp * 16, column);
}
