// rung:   07 specialised
// idea:   a warp of its own copies, so that the warpgroups that multiply never wait to start a
//         copy, and give it the registers that it does not need; products of one step are still
//         under way when those of the next are issued. So do CUTLASS's kernels for Hopper
// precision: bf16
// needs:  sm_90
// map:    a = A[128, 64] swizzle 128
// map:    b = B[64, 64] swizzle 128
// launch: matmul<<<(cdiv(N, 256), cdiv(M, 128)), 384, 197632>>>

#include "boxes.cuh"

__global__ void __launch_bounds__(384, 1)
    matmul(const __grid_constant__ weft::TensorMap a, const __grid_constant__ weft::TensorMap b,
           T* C, int M, int N, int K) {
    extern __shared__ unsigned char bytes[];
    __shared__ weft::Stages<STAGES> stages;
    unsigned ring = weft::slab_aligned(weft::shared_address(bytes));
    int row = blockIdx.y * BM, column = blockIdx.x * BN, steps = (K + 63) / 64;
    if (threadIdx.x == 0) stages.init(1, 8);
    __syncthreads();
    weft::Turn<STAGES> turn;
    if (weft::warpgroup_index() == 2) {
        weft::fewer_registers<40>();
        if (threadIdx.x == 256)
            for (int step = 0; step < steps; ++step, turn.next()) {
                stages.wait_empty(turn);
                BoxTile::fill(ring + turn.stage * STAGE, a, b, stages.full[turn.stage], row, column,
                              step * 64);
            }
        return;
    }
    weft::more_registers<232>();
    BoxTile tile;
    for (int step = 0; step < steps; ++step, turn.next()) {
        stages.wait_full(turn);
        tile.multiply(ring + turn.stage * STAGE, step == 0);
        weft::wgmma_wait<1>();
        if (step && weft::lane_index() == 0) stages.empty[turn.before()].arrive();
    }
    weft::wgmma_wait<0>();
    weft::wgmma_results(tile.of);
    tile.store(C, row, column, M, N);
}
