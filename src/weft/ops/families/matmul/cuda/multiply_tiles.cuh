// The body of the products on Hopper: C = f(A B + bias), batched. Blocks stay and compute one tile
// after another, or the blocks of a cluster share the K of one tile.
#pragma once
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

// How tiles of BM x BN are shared. RESIDENT blocks share an SM and cover each other's waits; a
// block that is alone moves registers from the warpgroup that copies to those that multiply.
// SPLITS: see schedule.cuh. TURNS: two warpgroups compute whole tiles by turns: one stores its
// results while the other multiplies. Else all of them share each tile. BOXES: results are stored
// by a tensor map.
template <int BM_, int BN_, int STAGES_, int RESIDENT_, int SPLITS_, bool TURNS_ = false,
          bool BOXES_ = false>
struct Schedule {
    static constexpr int BM = BM_, BN = BN_, STAGES = STAGES_, RESIDENT = RESIDENT_,
                         SPLITS = SPLITS_, DOWN = TURNS_ ? BM / 64 : 1,
                         CONSUMERS = TURNS_ ? 2 : BM / 64, WARPS = CONSUMERS * 4,
                         THREADS = WARPS * 32;  // that multiply
    static constexpr bool TURNS = TURNS_, BOXES = BOXES_;
    using Shares = ClusterShares<SPLITS, BN / 8, WARPS>;
};

// What becomes of results of type T. TRANSPOSED, WHOLE: see store.cuh; BIAS: bias.cuh.
template <class T_, bool TRANSPOSED_, bool WHOLE_, int ACTIVATION_, int BIAS_>
struct Results {
    using T = T_;
    static constexpr bool TRANSPOSED = TRANSPOSED_, WHOLE = WHOLE_;
    static constexpr int ACTIVATION = ACTIVATION_, BIAS = BIAS_;
    // What kernels are given to complete results, that of a product of the batch, and what a warp
    // does with it.
    using Given = const T*;
    static __device__ Given of_batch(Given bias, int batch, const Problem& p) {
        return bias + batch * p.batch_bias;
    }
    template <int COLUMNS>
    using Tile = TileBias<T, BIAS, COLUMNS>;
};

// How the sums of a tile are made: by the tensor cores alone. A product with other sums has a
// struct of its own with these members.
template <class E, class S, bool A_KMAJOR, bool B_KMAJOR>
struct TensorSums {
    using Tile = PipelinedTile<E, S::BM, S::BN, S::STAGES, A_KMAJOR, B_KMAJOR, S::DOWN>;
    static constexpr int BYTES = 0;       // of shared memory at `room`, after the stages
    static constexpr bool FILLS = false;  // a second warp fills stages too

    // One thread calls it, before it publishes its barriers.
    __device__ void init(const Problem&) {}
    // The second warp calls it for each tile.
    __device__ void fill(unsigned char*, typename Tile::Ring&, Turn<S::STAGES>&, const Problem&,
                         const Work&, int, int) {}
    // Before the first tile, by all that multiply.
    __device__ void begin(unsigned char*) {}
    // Before the products of a tile; `row` and `column` are the first results of the warp.
    __device__ void fetch(const Problem&, const Work&, int, int) {}
    __device__ void start(Tile& tile, unsigned ring, typename Tile::Ring& stages, int consumer,
                          int steps, unsigned char*) {
        tile.start(ring, stages, consumer, steps);
    }
    __device__ void finish(Tile& tile, typename Tile::Ring& stages) { tile.finish(stages); }
    // Makes the results that are stored of the sums of all K.
    template <int N>
    __device__ void complete(const float (&of)[N][4], float (&results)[N][4], unsigned char*) {
        memcpy(results, of, sizeof of);
    }
    // After them.
    __device__ void store(const Problem&, int, unsigned char*) {}
};

// Products of `steps` steps of K, for tensor cores that cut sums off: those of each step are added
// to the others by ordinary additions. The products of other warpgroups cover these. Two steps at a
// time were slower, and so was one half of a tile beside the sums of the other.
template <class Tile>
__device__ void multiply_in_parts(Tile& tile, unsigned ring, typename Tile::Ring& stages,
                                  int consumer, int steps) {
    float sums[Tile::ACROSS][4] = {};
#pragma unroll 1
    for (; steps > 0; --steps, tile.turn.next()) {
        int stage = tile.turn.stage;
        stages.wait_full(tile.turn);
        tile.multiply_stage(ring + stage * Tile::STAGE, consumer, true);
        wgmma_wait<0>();
        wgmma_results(tile.of[0]);
        Tile::release(stages, stage);
#pragma unroll
        for (int n = 0; n < Tile::ACROSS; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[n][i] += tile.of[0][n][i];
    }
    memcpy(tile.of[0], sums, sizeof sums);
}

// Computes the tiles of a block. S is a Schedule, R are Results; `to_boxes` is the map of C for
// BOXES.
template <class S, class R, class Sums>
__device__ void multiply_tiles(const OperandMaps& A, const OperandMaps& B,
                               const TensorMap& to_boxes, typename R::Given bias, typename R::T* C,
                               const Problem& p, Sums& sums) {
    using T = typename R::T;
    using G = typename Sums::Tile;
    using Shares = typename S::Shares;
    constexpr int WIDTH = S::RESIDENT == 1 && S::BM <= 192 ? 64 : 32;
    using Stored = ResultStore<T, R::TRANSPOSED, R::WHOLE, R::ACTIVATION, WIDTH>;
    using Boxes = BoxStore<T, S::BOXES ? S::BN : 64, R::ACTIVATION>;
    using Held = Registers<S::WARPS + (S::RESIDENT == 1 ? 4 : 1), S::RESIDENT, S::TURNS>;
    constexpr int THREADS = S::THREADS, COPYING = Sums::FILLS ? 64 : 32;
    extern __shared__ __align__(1024) unsigned char bytes[];
    __shared__ typename G::Ring stages;
    __shared__ Barrier order[2];  // TURNS: a warpgroup may multiply
    __shared__ Shares shares;
    unsigned ring = slab_aligned(shared_address(bytes));
    unsigned char* start = bytes + (ring - shared_address(bytes));
    unsigned char* room = start + S::STAGES * G::STAGE;
    Walk<S::SPLITS> walk(p, G::STEP);
    if (warpgroup_index() == S::CONSUMERS) {
        if constexpr (Held::MOVED) fewer_registers<Held::COPYING>();
        if (threadIdx.x >= THREADS + COPYING) return;  // an arrival at the cluster's barrier too
        if (threadIdx.x == THREADS) {
            prefetch_map(A.whole), prefetch_map(B.whole);
            if (S::TURNS) order[0].init(4), order[1].init(4);
            if (S::SPLITS > 1) shares.init();
            sums.init(p);
            stages.init(Sums::FILLS ? 33 : 1, G::CONSUMERS * 4);
        }
        __syncwarp();
        if (S::SPLITS > 1) cluster_arrive();
        bool second = Sums::FILLS && threadIdx.x >= THREADS + 32;
        // The barriers are there; copies of the thread that made them begin at once.
        if (second) barrier_sync<THREADS + COPYING>(2);
        else barrier_arrive<THREADS + COPYING>(2);
        if (!second && threadIdx.x != THREADS) return;
        bool early = p.constant && !Sums::FILLS;
        if (!early) wait_for_kernels();
        Turn<S::STAGES> turn;
        while (walk.next()) {
            Work work = Work::number<S::BM, S::BN>(walk.at, p);
            int2 batch = make_int2(p.batch_a ? work.batch : 0, p.batch_b ? work.batch : 0);
            if (second) sums.fill(room, stages, turn, p, work, walk.begin, walk.steps);
            else if (early) {
                early = false;
                G::fill_early(A, B, ring, stages, turn, work.row, work.column, batch,
                              walk.begin * G::STEP, walk.steps);
            } else
                G::fill(A, B, ring, stages, turn, work.row, work.column, batch,
                        walk.begin * G::STEP, walk.steps);
        }
        if (second) wait_all_copies();
        return;
    }
    if constexpr (Held::MOVED) more_registers<Held::COMPUTING>();
    if (S::SPLITS > 1) cluster_arrive();
    sums.begin(room);
    barrier_sync<THREADS + COPYING>(2);
    start_next_kernel();
    wait_for_kernels();
    constexpr int MINE = Shares::MINE;  // times 8 columns are stored
    constexpr int BIASES = R::BIAS == ROW_BIAS ? S::DOWN : 1;
    int consumer = warpgroup_index(), warp = threadIdx.x / 32;
    G tile;
    typename R::template Tile<MINE * 8> added[BIASES];
    constexpr int STAGED = S::BOXES ? 16 * S::BN : Stored::ELEMENTS;  // for a warp
    T* staging = reinterpret_cast<T*>(room + Sums::BYTES);
    T* bias_columns = staging + S::WARPS * STAGED;
    T* columns = bias_columns + warp * MINE * 8;
    staging += warp * STAGED;
    for (int number = 0; walk.next(); ++number) {
        if (S::TURNS && number % 2 != consumer) {
            tile.skip(walk.steps);
            continue;
        }
        Work work = Work::number<S::BM, S::BN>(walk.at, p);
        int row = work.row + (S::TURNS ? warp % 4 : warp) * 16,
            column = work.column + (S::SPLITS > 1 ? Shares::first() * 8 : 0);
        typename R::Given from = R::of_batch(bias, work.batch, p);
#pragma unroll
        for (int i = 0; i < BIASES; ++i) added[i].fetch(from, columns, p, row + i * 64, column);
        sums.fetch(p, work, row, column);
        // A stage has two phases: the other warpgroup must be past them before this one waits.
        if (S::TURNS) order[consumer].wait(number / 2 % 2 ^ 1 ^ consumer);
        sums.start(tile, ring, stages, S::TURNS ? 0 : consumer, walk.steps, room);
        if (S::TURNS && lane_index() == 0) order[consumer ^ 1].arrive();
        sums.finish(tile, stages);
        added[0].share();
        T* to = C + work.batch * p.batch_c;
        if constexpr (S::BOXES) {
            Boxes::store(tile.of[0], shared_address(staging), to_boxes, added[0], p, row, column,
                         work.batch);
        } else if constexpr (S::SPLITS == 1) {
#pragma unroll
            for (int i = 0; i < S::DOWN; ++i) {
                float results[G::ACROSS][4];
                sums.complete(tile.of[i], results, room);
                Stored::store(results, staging, to, added[BIASES > 1 ? i : 0], p, row + i * 64,
                              column);
            }
        } else {
            typename G::Sum all[MINE][4];
            void* beside = bias_columns + S::WARPS * MINE * 8;
            float4* given = reinterpret_cast<float4*>(Shares::REPLACES ? start : beside);
            if (shares.add(tile.of[0], all, given)) {
                float results[MINE][4];
                sums.complete(all, results, room);
                Stored::store(results, staging, to, added[0], p, row, column);
            }
        }
        sums.store(p, row, room);
    }
    if constexpr (S::BOXES) Boxes::finish();
}

// Parameters of a kernel: the maps of both operands, see OperandMaps.
#define MAPS                                                                       \
    const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap A_edge, \
        const __grid_constant__ TensorMap B, const __grid_constant__ TensorMap B_edge
#define OF_MAPS \
    {A, A_edge, p.M}, { B, B_edge, p.N }
