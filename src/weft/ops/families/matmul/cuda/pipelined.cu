// Matrix products of 16-bit elements on Hopper: C = f(A B + bias), batched. Blocks stay and compute
// one tile after another, or the blocks of a cluster share the K of one tile.
#include <weft/block.cuh>
#include <weft/cluster.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include "pipelined.cuh"
#include "store.cuh"

// Registers of a thread. LAUNCH: of each, as a block of so many warps and RESIDENT blocks of an SM
// leave them; the warps of an SM share four files of 16,384. The others are after a warpgroup that
// copies has given what it does not need to those that multiply.
template <int WARPS, int RESIDENT>
struct Registers {
    static constexpr int LAUNCH = 16384 / 32 / ceil_div(WARPS * RESIDENT, 4) / 8 * 8,
                         COPYING = WARPS > 12 ? 24 : 40,
                         SPARE = (LAUNCH * WARPS - COPYING * 4) / (WARPS - 4) / 8 * 8,
                         COMPUTING = SPARE < 240 ? SPARE : 240;
    static constexpr bool MOVED = RESIDENT == 1 && LAUNCH < 200;
};

// The sums of all blocks of a cluster, of this block's share of the columns. `room` is a float4 for
// each thread and each 8 columns. Sums are added in the order of the blocks.
template <int SPLITS, int ACROSS, int THREADS>
__device__ void add_shares(const float (&of)[ACROSS][4], float (&sums)[ACROSS / SPLITS][4],
                           float4* room) {
    constexpr int MINE = ACROSS / SPLITS;
    barrier_sync<THREADS>(1);  // all have read the last stage, which the shares replace
#pragma unroll
    for (int n = 0; n < ACROSS; ++n)
        room[n * THREADS + threadIdx.x] = make_float4(of[n][0], of[n][1], of[n][2], of[n][3]);
    cluster_sync();
    int first = cluster_block() * MINE;
#pragma unroll
    for (int n = 0; n < MINE; ++n) {
        float4 share[SPLITS];
#pragma unroll
        for (int block = 0; block < SPLITS; ++block)
            share[block] = load_from(block, room + (first + n) * THREADS + threadIdx.x);
        sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0;
#pragma unroll
        for (int block = 0; block < SPLITS; ++block) {
            sums[n][0] += share[block].x, sums[n][1] += share[block].y;
            sums[n][2] += share[block].z, sums[n][3] += share[block].w;
        }
    }
    cluster_sync();  // no block ends while others read its shares
}

// The tile of work number `at`, and the parts of K of a block.
struct Work {
    int row, column, batch;

    template <int BM, int BN>
    static __device__ Work number(int at, const Problem& p) {
        int tiles = p.tiles_m * p.tiles_n, batch = at / tiles;
        int2 tile =
            tile_in_bands<(BN >= 2 * BM       ? 16
                           : 4 * BN >= 3 * BM ? 12
                                              : 8)>(at - batch * tiles, p.tiles_m, p.tiles_n);
        return {tile.x * BM, tile.y * BN, batch};
    }
};

// RESIDENT blocks share an SM and cover each other's waits; a block that is alone moves
// registers from the warpgroup that copies to those that multiply. SPLITS blocks of a cluster share
// the K of a tile. TRANSPOSED, WHOLE: see store.cuh; BIAS: bias.cuh.
template <class T, int BM, int BN, int STAGES, int RESIDENT, int SPLITS, bool A_KMAJOR,
          bool B_KMAJOR, bool TRANSPOSED, bool WHOLE, int ACTIVATION, int BIAS>
__device__ void multiply_tiles(const TensorMap& A, const TensorMap& B, const T* bias, T* C,
                               const Problem& p) {
    using G = PipelinedTile<T, BM, BN, STAGES, A_KMAJOR, B_KMAJOR>;
    using Results =
        ResultStore<T, TRANSPOSED, WHOLE, ACTIVATION, RESIDENT == 1 && BM <= 192 ? 64 : 32>;
    using R = Registers<BM / 16 + (RESIDENT == 1 ? 4 : 1), RESIDENT>;
    constexpr int THREADS = BM * 2;
    extern __shared__ __align__(1024) unsigned char bytes[];
    __shared__ typename G::Ring stages;
    unsigned ring = slab_aligned(shared_address(bytes));
    unsigned char* start = bytes + (ring - shared_address(bytes));
    int steps = ceil_div(p.K, G::STEP), works = p.tiles_m * p.tiles_n * p.batch;
    int part = SPLITS == 1 ? 0 : blockIdx.x % SPLITS, first = blockIdx.x / SPLITS;
    int begin = steps * part / SPLITS, mine = steps * (part + 1) / SPLITS - begin;
    if (warpgroup_index() == G::CONSUMERS) {
        if constexpr (R::MOVED) fewer_registers<R::COPYING>();
        if (threadIdx.x >= THREADS + 32) return;
        if (threadIdx.x == THREADS) {
            prefetch_map(A), prefetch_map(B);
            stages.init(1, G::CONSUMERS * 4);
        }
        __syncwarp();
        barrier_arrive<THREADS + 32>(2);  // the barriers are there; copies begin at once
        if (threadIdx.x != THREADS) return;
        wait_for_kernels();
        Turn<STAGES> turn;
        for (int at = first; at < works; at += gridDim.x / SPLITS) {
            Work work = Work::number<BM, BN>(at, p);
            int2 batch = make_int2(p.batch_a ? work.batch : 0, p.batch_b ? work.batch : 0);
            G::fill(A, B, ring, stages, turn, work.row, work.column, batch, begin * G::STEP, mine);
        }
        return;
    }
    if constexpr (R::MOVED) more_registers<R::COMPUTING>();
    barrier_sync<THREADS + 32>(2);
    start_next_kernel();
    wait_for_kernels();
    constexpr int MINE = G::ACROSS / SPLITS;  // times 8 columns are stored
    int consumer = warpgroup_index(), warp = threadIdx.x / 32;
    G tile;
    TileBias<T, BIAS, MINE * 8> added;
    T* staging = reinterpret_cast<T*>(start + STAGES * G::STAGE);
    T* columns = staging + THREADS / 32 * Results::ELEMENTS + warp * MINE * 8;
    staging += warp * Results::ELEMENTS;
    for (int at = first; at < works; at += gridDim.x / SPLITS) {
        Work work = Work::number<BM, BN>(at, p);
        int row = work.row + warp * 16, column = work.column + part * MINE * 8;
        added.fetch(bias + work.batch * p.batch_bias, columns, p, row, column);
        tile.multiply(ring, stages, consumer, mine);
        added.share();
        T* to = C + work.batch * p.batch_c;
        if constexpr (SPLITS == 1) {
            Results::store(tile.of, staging, to, added, p, row, column);
        } else {
            float sums[MINE][4];
            add_shares<SPLITS, G::ACROSS, THREADS>(tile.of, sums, reinterpret_cast<float4*>(start));
            Results::store(sums, staging, to, added, p, row, column);
        }
    }
}

// A block for an SM: a warpgroup copies.
template <class T, int BM, int BN, int STAGES, int SPLITS, bool A_KMAJOR, bool B_KMAJOR,
          bool TRANSPOSED, bool WHOLE, int ACTIVATION, int BIAS>
__global__ void __launch_bounds__(BM * 2 + 128, 1)
    pipelined(const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
              const T* bias, T* C, const __grid_constant__ Problem p) {
    multiply_tiles<T, BM, BN, STAGES, 1, SPLITS, A_KMAJOR, B_KMAJOR, TRANSPOSED, WHOLE, ACTIVATION,
                   BIAS>(A, B, bias, C, p);
}

// RESIDENT blocks for an SM: a warp copies. The compiler would count it as a warpgroup and leave
// each thread too few registers, so they are named.
template <class T, int BM, int BN, int STAGES, int RESIDENT, int SPLITS, bool A_KMAJOR,
          bool B_KMAJOR, bool TRANSPOSED, bool WHOLE, int ACTIVATION, int BIAS>
__global__ void __maxnreg__((Registers<BM / 16 + 1, RESIDENT>::LAUNCH))
    pipelined_beside(const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
                     const T* bias, T* C, const __grid_constant__ Problem p) {
    multiply_tiles<T, BM, BN, STAGES, RESIDENT, SPLITS, A_KMAJOR, B_KMAJOR, TRANSPOSED, WHOLE,
                   ACTIVATION, BIAS>(A, B, bias, C, p);
}
