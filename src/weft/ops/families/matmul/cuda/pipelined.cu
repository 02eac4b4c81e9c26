// Matrix products of 16-bit elements on Hopper: C = f(A B + bias), batched. Blocks stay and compute
// one tile after another, or the blocks of a cluster share the K of one tile.
#include <weft/block.cuh>
#include <weft/cluster.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include "box_store.cuh"
#include "pipelined.cuh"
#include "schedule.cuh"
#include "shares.cuh"
#include "store.cuh"

// Registers of a thread. LAUNCH: of each, as a block of so many warps and RESIDENT blocks of an SM
// leave them; the warps of an SM share four files of 16,384. The others are after a warpgroup that
// copies has given what it does not need to those that multiply; MANY: more of it.
template <int WARPS, int RESIDENT, bool MANY = false>
struct Registers {
    static constexpr int LAUNCH = 16384 / 32 / ceil_div(WARPS * RESIDENT, 4) / 8 * 8,
                         COPYING = WARPS > 12 || MANY ? 24 : 40,
                         SPARE = (LAUNCH * WARPS - COPYING * 4) / (WARPS - 4) / 8 * 8,
                         COMPUTING = SPARE < 240 ? SPARE : 240;
    static constexpr bool MOVED = RESIDENT == 1 && LAUNCH < 200;
};

// RESIDENT blocks share an SM and cover each other's waits; a block that is alone moves
// registers from the warpgroup that copies to those that multiply. SPLITS: see schedule.cuh. TURNS:
// two warpgroups compute whole tiles by turns: one stores its results while the other multiplies.
// Else all of them share each tile. BOXES: results are stored by the map `to_boxes`. TRANSPOSED,
// WHOLE: see store.cuh; BIAS: bias.cuh.
template <class T, int BM, int BN, int STAGES, int RESIDENT, int SPLITS, bool TURNS, bool BOXES,
          bool A_KMAJOR, bool B_KMAJOR, bool TRANSPOSED, bool WHOLE, int ACTIVATION, int BIAS>
__device__ void multiply_tiles(const OperandMaps& A, const OperandMaps& B,
                               const TensorMap& to_boxes, const T* bias, T* C, const Problem& p) {
    constexpr int DOWN = TURNS ? BM / 64 : 1, CONSUMERS = TURNS ? 2 : BM / 64,
                  THREADS = CONSUMERS * 128;
    using G = PipelinedTile<T, BM, BN, STAGES, A_KMAJOR, B_KMAJOR, DOWN>;
    using Results =
        ResultStore<T, TRANSPOSED, WHOLE, ACTIVATION, RESIDENT == 1 && BM <= 192 ? 64 : 32>;
    using R = Registers<THREADS / 32 + (RESIDENT == 1 ? 4 : 1), RESIDENT, TURNS>;
    extern __shared__ __align__(1024) unsigned char bytes[];
    __shared__ typename G::Ring stages;
    __shared__ Barrier order[2];  // TURNS: a warpgroup may multiply
    unsigned ring = slab_aligned(shared_address(bytes));
    unsigned char* start = bytes + (ring - shared_address(bytes));
    using Shares = ClusterShares<SPLITS, G::ACROSS, THREADS / 32>;
    __shared__ Shares shares;
    Walk<SPLITS> walk(p, G::STEP);
    if (warpgroup_index() == CONSUMERS) {
        if constexpr (R::MOVED) fewer_registers<R::COPYING>();
        if (threadIdx.x >= THREADS + 32) return;  // an arrival at the cluster's barrier too
        if (threadIdx.x == THREADS) {
            prefetch_map(A.whole), prefetch_map(B.whole);
            if (TURNS) order[0].init(4), order[1].init(4);
            if (SPLITS > 1) shares.init();
            stages.init(1, G::CONSUMERS * 4);
        }
        __syncwarp();
        if (SPLITS > 1) cluster_arrive();
        barrier_arrive<THREADS + 32>(2);  // the barriers are there; copies begin at once
        if (threadIdx.x != THREADS) return;
        wait_for_kernels();
        Turn<STAGES> turn;
        while (walk.next()) {
            Work work = Work::number<BM, BN>(walk.at, p);
            int2 batch = make_int2(p.batch_a ? work.batch : 0, p.batch_b ? work.batch : 0);
            G::fill(A, B, ring, stages, turn, work.row, work.column, batch, walk.begin * G::STEP,
                    walk.steps);
        }
        return;
    }
    if constexpr (R::MOVED) more_registers<R::COMPUTING>();
    if (SPLITS > 1) cluster_arrive();
    barrier_sync<THREADS + 32>(2);
    start_next_kernel();
    wait_for_kernels();
    constexpr int MINE = Shares::MINE;  // times 8 columns are stored
    int consumer = warpgroup_index(), warp = threadIdx.x / 32;
    G tile;
    TileBias<T, BIAS, MINE * 8> added[BIAS == ROW_BIAS ? DOWN : 1];
    constexpr int STAGED = BOXES ? 16 * BN : Results::ELEMENTS;  // for a warp
    T* staging = reinterpret_cast<T*>(start + STAGES * G::STAGE);
    T* bias_columns = staging + THREADS / 32 * STAGED;
    T* columns = bias_columns + warp * MINE * 8;
    staging += warp * STAGED;
    for (int number = 0; walk.next(); ++number) {
        if (TURNS && number % 2 != consumer) {
            tile.skip(walk.steps);
            continue;
        }
        Work work = Work::number<BM, BN>(walk.at, p);
        int row = work.row + (TURNS ? warp % 4 : warp) * 16,
            column = work.column + (SPLITS > 1 ? Shares::first() * 8 : 0);
        const T* from = bias + work.batch * p.batch_bias;
#pragma unroll
        for (int i = 0; i < (BIAS == ROW_BIAS ? DOWN : 1); ++i)
            added[i].fetch(from, columns, p, row + i * 64, column);
        // A stage has two phases: the other warpgroup must be past them before this one waits.
        if (TURNS) order[consumer].wait(number / 2 % 2 ^ 1 ^ consumer);
        tile.start(ring, stages, TURNS ? 0 : consumer, walk.steps);
        if (TURNS && lane_index() == 0) order[consumer ^ 1].arrive();
        tile.finish(stages);
        added[0].share();
        T* to = C + work.batch * p.batch_c;
        if constexpr (BOXES) {
            BoxStore<T, BN, ACTIVATION>::store(tile.of[0], shared_address(staging), to_boxes,
                                               added[0], p, row, column, work.batch);
        } else if constexpr (SPLITS == 1) {
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
                Results::store(tile.of[i], staging, to, added[BIAS == ROW_BIAS ? i : 0], p,
                               row + i * 64, column);
        } else {
            float sums[MINE][4];
            void* beside = bias_columns + THREADS / 32 * MINE * 8;
            float4* room = reinterpret_cast<float4*>(Shares::REPLACES ? start : beside);
            if (shares.add(tile.of[0], sums, room))
                Results::store(sums, staging, to, added[0], p, row, column);
        }
    }
    if constexpr (BOXES) BoxStore<T, BN, ACTIVATION>::finish();
}

// Parameters of a kernel: the maps of both operands, see OperandMaps.
#define MAPS                                                                       \
    const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap A_edge, \
        const __grid_constant__ TensorMap B, const __grid_constant__ TensorMap B_edge

// A block for an SM: a warpgroup copies.
template <class T, int BM, int BN, int STAGES, int SPLITS, bool A_KMAJOR, bool B_KMAJOR,
          bool TRANSPOSED, bool WHOLE, int ACTIVATION, int BIAS>
__global__ void __launch_bounds__(BM * 2 + 128, 1)
    pipelined(MAPS, const T* bias, T* C, const __grid_constant__ Problem p) {
    multiply_tiles<T, BM, BN, STAGES, 1, SPLITS, false, false, A_KMAJOR, B_KMAJOR, TRANSPOSED,
                   WHOLE, ACTIVATION, BIAS>({A, A_edge, p.M}, {B, B_edge, p.N}, A, bias, C, p);
}

// The same, with a map of C.
template <class T, int BM, int BN, int STAGES, int SPLITS, bool A_KMAJOR, bool B_KMAJOR,
          int ACTIVATION, int BIAS>
__global__ void __launch_bounds__(BM * 2 + 128, 1)
    pipelined_boxes(MAPS, const __grid_constant__ TensorMap C, const T* bias,
                    const __grid_constant__ Problem p) {
    multiply_tiles<T, BM, BN, STAGES, 1, SPLITS, false, true, A_KMAJOR, B_KMAJOR, false, true,
                   ACTIVATION, BIAS>({A, A_edge, p.M}, {B, B_edge, p.N}, C, bias, nullptr, p);
}

// The same, with warpgroups that take turns.
template <class T, int BM, int BN, int STAGES, int SPLITS, bool A_KMAJOR, bool B_KMAJOR,
          bool TRANSPOSED, bool WHOLE, int ACTIVATION, int BIAS>
__global__ void __launch_bounds__(384, 1)
    pipelined_in_turns(MAPS, const T* bias, T* C, const __grid_constant__ Problem p) {
    multiply_tiles<T, BM, BN, STAGES, 1, SPLITS, true, false, A_KMAJOR, B_KMAJOR, TRANSPOSED, WHOLE,
                   ACTIVATION, BIAS>({A, A_edge, p.M}, {B, B_edge, p.N}, A, bias, C, p);
}

// RESIDENT blocks for an SM: a warp copies. The compiler would count it as a warpgroup and leave
// each thread too few registers, so they are named.
template <class T, int BM, int BN, int STAGES, int RESIDENT, int SPLITS, bool A_KMAJOR,
          bool B_KMAJOR, bool TRANSPOSED, bool WHOLE, int ACTIVATION, int BIAS>
__global__ void __maxnreg__((Registers<BM / 16 + 1, RESIDENT>::LAUNCH))
    pipelined_beside(MAPS, const T* bias, T* C, const __grid_constant__ Problem p) {
    multiply_tiles<T, BM, BN, STAGES, RESIDENT, SPLITS, false, false, A_KMAJOR, B_KMAJOR,
                   TRANSPOSED, WHOLE, ACTIVATION, BIAS>({A, A_edge, p.M}, {B, B_edge, p.N}, A, bias,
                                                        C, p);
}
