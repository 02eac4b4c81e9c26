// Products of 16-bit elements on Hopper that are added to sums in single precision:
// C += A B, of columns of A and rows of B that are contiguous in memory.
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/mma.cuh>
#include <weft/warp.cuh>
#include "../../matmul/cuda/pipelined.cuh"
#include "../../matmul/cuda/schedule.cuh"
#include "sums.cuh"

// Registers of a thread that copies or multiplies; 168 at the launch.
struct Registers {
    static constexpr int COPYING = 24, COMPUTING = 240;
};

// The four threads of a row of accumulators have two columns of each eight: after this, each has
// all columns of one eight out of four. `of` are those of four eights.
__device__ inline void turn_columns(float (&of)[8]) {
    int lane = lane_index();
    bool odd = lane & 1, high = lane & 2;
#pragma unroll
    for (int k = 0; k < 8; k += 4)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            float other = shuffle_xor(odd ? of[k + j] : of[k + 2 + j], 1);
            (odd ? of[k + j] : of[k + 2 + j]) = other;
        }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        float other = shuffle_xor(high ? of[k] : of[k + 4], 2);
        (high ? of[k] : of[k + 4]) = other;
    }
}

// Has the L2 cache fetch the sums of a warp's part of a tile, of COLUMNS columns, while it
// multiplies: each thread those of a row of its four.
template <int DOWN, int COLUMNS, class T>
__device__ void prefetch_sums(const Sums<T>& sums, const Problem& p, int row, int column) {
    constexpr int LINE = 64;  // elements of 128 bytes
    static_assert(DOWN == 2, "four rows of a thread");
    int which = lane_index() % 4, at = row + which / 2 * 64 + c_row(which % 2 * 2);
    if (at >= p.M) return;
#pragma unroll
    for (int n = 0; n < COLUMNS; n += LINE)
        if (column + n < p.N) sums.prefetch(at * p.row_c + column + n);
}

// Adds a tile's products to the sums, from `row` and `column` on. A thread loads those of BATCH
// rows of accumulators together.
template <int STAGE, int DOWN, int ACROSS, class T>
__device__ void add_to_sums(float (&of)[DOWN][ACROSS][4], const Sums<T>& sums, const Problem& p,
                            int row, int column) {
    constexpr int GROUPS = ACROSS / 4, BATCH = GROUPS % 2 == 0 ? 2 : GROUPS % 3 == 0 ? 3 : 1;
    static_assert(ACROSS % 4 == 0 && GROUPS % BATCH == 0, "whole batches");
    column += lane_index() % 4 * 8;
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int at = row + i * 64 + c_row(half * 2);
            long long start = at * p.row_c + column;
#pragma unroll
            for (int first = 0; first < GROUPS; first += BATCH) {
                Eight old[BATCH];
                if constexpr (STAGE != BEGIN)
#pragma unroll
                    for (int b = 0; b < BATCH; ++b)
                        if (at < p.M && column + (first + b) * 32 < p.N)
                            old[b] = sums.get(start + (first + b) * 32);
#pragma unroll
                for (int b = 0; b < BATCH; ++b) {
                    float products[8];
#pragma unroll
                    for (int k = 0; k < 8; ++k)
                        products[k] = of[i][(first + b) * 4 + k / 2][half * 2 + k % 2];
                    turn_columns(products);
                    if (at < p.M && column + (first + b) * 32 < p.N)
                        put_sums<STAGE>(sums, start + (first + b) * 32, products, old[b]);
                }
            }
        }
}

// Two warpgroups compute whole tiles by turns: one adds to the sums while the other
// multiplies. A third one copies operands.
template <class T, int BM, int BN, int STAGES, int STAGE>
__global__ void __launch_bounds__(384, 1)
    add_product(const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap A_edge,
                const __grid_constant__ TensorMap B, const __grid_constant__ TensorMap B_edge,
                T* out, int* rest, const __grid_constant__ Problem p) {
    using G = PipelinedTile<T, BM, BN, STAGES, false, false, BM / 64>;
    constexpr int THREADS = 256;
    extern __shared__ __align__(1024) unsigned char bytes[];
    __shared__ typename G::Ring stages;
    __shared__ Barrier order[2];  // a warpgroup may multiply
    unsigned ring = slab_aligned(shared_address(bytes));
    Walk<1> walk(p, G::STEP);
    if (warpgroup_index() == 2) {
        fewer_registers<Registers::COPYING>();
        if (threadIdx.x >= THREADS + 32) return;
        if (threadIdx.x == THREADS) {
            prefetch_map(A), prefetch_map(B);
            order[0].init(4), order[1].init(4);
            stages.init(1, G::CONSUMERS * 4);
        }
        __syncwarp();
        barrier_arrive<THREADS + 32>(2);  // the barriers are there; copies begin at once
        if (threadIdx.x != THREADS) return;
        wait_for_kernels();
        Turn<STAGES> turn;
        while (walk.next()) {
            Work work = Work::number<BM, BN>(walk.at, p);
            G::fill({A, A_edge, p.M}, {B, B_edge, p.N}, ring, stages, turn, work.row, work.column,
                    make_int2(0, 0), 0, walk.steps);
        }
        return;
    }
    more_registers<Registers::COMPUTING>();
    barrier_sync<THREADS + 32>(2);
    start_next_kernel();
    wait_for_kernels();
    int consumer = warpgroup_index(), warp = threadIdx.x / 32 % 4;
    Sums<T> sums{out, rest};
    G tile;
    for (int number = 0; walk.next(); ++number) {
        if (number % 2 != consumer) {
            tile.skip(walk.steps);
            continue;
        }
        Work work = Work::number<BM, BN>(walk.at, p);
        int row = work.row + warp * 16;
        if constexpr (STAGE != BEGIN) prefetch_sums<BM / 64, BN>(sums, p, row, work.column);
        // A stage has two phases: the other warpgroup must be past them before this one waits.
        order[consumer].wait(number / 2 % 2 ^ 1 ^ consumer);
        tile.start(ring, stages, 0, walk.steps);
        if (lane_index() == 0) order[consumer ^ 1].arrive();
        tile.finish(stages);
        add_to_sums<STAGE>(tile.of, sums, p, row, work.column);
    }
}
