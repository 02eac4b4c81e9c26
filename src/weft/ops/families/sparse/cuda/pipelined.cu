// Products with a 2:4 sparse weight on Hopper: C = W x' + bias, stored as its transpose y[N][M].
// Blocks, or clusters of them, stay and compute one tile after another.
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include "../../matmul/cuda/multiply_tiles.cuh"
#include "sparse_tile.cuh"

template <class T, int BM, int BN, int STAGES, int CLUSTER, bool WHOLE, bool BIAS>
__global__ void __launch_bounds__(BM * 2 + 128, 1)
    pipelined(const __grid_constant__ TensorMap values, const __grid_constant__ TensorMap dense,
              const __grid_constant__ TensorMap dense_edge,
              const __grid_constant__ TensorMap metadata, const T* bias, T* C,
              const __grid_constant__ Problem p) {
    using G = SparseTile<T, BM, BN, STAGES, CLUSTER>;
    constexpr int WIDTH = 64, WARPS = G::CONSUMERS * 4, THREADS = WARPS * 32;
    using Stored = ResultStore<T, true, WHOLE, 0, WIDTH>;
    using Held = Registers<WARPS + 4, 1>;
    extern __shared__ __align__(1024) unsigned char bytes[];
    __shared__ typename G::Ring stages;
    unsigned ring = slab_aligned(shared_address(bytes));
    unsigned char* memory = bytes + (ring - shared_address(bytes));
    int block = CLUSTER > 1 ? cluster_block() : 0, works = p.tiles_m * p.tiles_n;
    int first = blockIdx.x / CLUSTER, stride = gridDim.x / CLUSTER;
    if (warpgroup_index() == G::CONSUMERS) {
        if constexpr (Held::MOVED) fewer_registers<Held::COPYING>();
        if (threadIdx.x >= THREADS + 32) return;  // an arrival at the cluster's barrier too
        if (threadIdx.x == THREADS) {
            prefetch_map(values), prefetch_map(dense), prefetch_map(metadata);
            G::init(stages);
        }
        __syncwarp();
        if (CLUSTER > 1) cluster_arrive();
        barrier_arrive<THREADS + 32>(2);  // the barriers are there
        if (CLUSTER > 1) cluster_wait();
        if (threadIdx.x != THREADS) return;
        wait_for_kernels();
        SparseMaps maps{
            values, {dense, dense_edge, p.N}, metadata, ceil_div(p.M, 64), ceil_div(p.K, G::STEP)};
        Turn<STAGES> turn;
        for (int at = first; at < works; at += stride) {
            Work work = Work::number<BM * CLUSTER, BN>(at, p);
            G::fill(maps, ring, stages, turn, work.row + block * BM, work.column, block);
        }
        return;
    }
    if constexpr (Held::MOVED) more_registers<Held::COMPUTING>();
    if (CLUSTER > 1) cluster_arrive();
    barrier_sync<THREADS + 32>(2);
    if (CLUSTER > 1) cluster_wait();
    start_next_kernel();
    wait_for_kernels();
    int warp = threadIdx.x / 32, consumer = warpgroup_index();
    T* staging = reinterpret_cast<T*>(memory + STAGES * G::STAGE) + warp * Stored::ELEMENTS;
    G tile;
    TileBias<T, BIAS ? ROW_BIAS : NO_BIAS, BN> added;
    for (int at = first; at < works; at += stride) {
        Work work = Work::number<BM * CLUSTER, BN>(at, p);
        int row = work.row + block * BM + warp * 16;
        added.fetch(bias, nullptr, p, row, work.column);
        tile.multiply(memory, ring, stages, consumer, ceil_div(p.K, G::STEP));
        if (row < p.M) Stored::store(tile.of, staging, C, added, p, row, work.column);
    }
    if constexpr (CLUSTER > 1) {
        cluster_arrive();  // no block ends while others arrive at its barriers
        cluster_wait();
    }
}
