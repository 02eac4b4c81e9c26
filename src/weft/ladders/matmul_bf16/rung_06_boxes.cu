// rung:   06 boxes
// idea:   Hopper's own instructions. A tensor map describes a matrix; one thread starts a copy of a
//         whole box of it (TMA), and a barrier in shared memory counts its bytes. Warpgroups
//         multiply tiles that lie in shared memory (wgmma), without loads into registers
// precision: bf16
// needs:  sm_90
// map:    a = A[128, 64] swizzle 128
// map:    b = B[64, 64] swizzle 128
// expect: shared load wavefronts per request <= 1
// launch: matmul<<<(cdiv(N, 256), cdiv(M, 128)), 256, 197632>>>

#include "boxes.cuh"

__global__ void __launch_bounds__(256, 1)
    matmul(const __grid_constant__ weft::TensorMap a, const __grid_constant__ weft::TensorMap b,
           T* C, int M, int N, int K) {
    extern __shared__ unsigned char bytes[];
    __shared__ weft::Stages<STAGES> stages;
    unsigned ring = weft::slab_aligned(weft::shared_address(bytes));
    int row = blockIdx.y * BM, column = blockIdx.x * BN, steps = (K + 63) / 64;
    if (threadIdx.x == 0) stages.init(1, 8);
    __syncthreads();
    auto fill = [&](int step, int stage) {
        BoxTile::fill(ring + stage * STAGE, a, b, stages.full[stage], row, column, step * 64);
    };
    if (threadIdx.x == 0)
        for (int step = 0; step < min(STAGES - 1, steps); ++step) fill(step, step);
    BoxTile tile;
    weft::Turn<STAGES> turn;
    for (int step = 0; step < steps; ++step, turn.next()) {
        stages.wait_full(turn);
        tile.multiply(ring + turn.stage * STAGE, step == 0);
        weft::wgmma_wait<0>();
        if (weft::lane_index() == 0) stages.empty[turn.stage].arrive();
        int next = step + STAGES - 1, stage = turn.before();
        if (threadIdx.x == 0 && next < steps) {
            // The stage of the step before is filled next, once all warps have multiplied it.
            if (step) stages.empty[stage].wait(next / STAGES + 1 & 1);
            fill(next, stage);
        }
        __syncwarp();
    }
    weft::wgmma_results(tile.of);
    tile.store(C, row, column, M, N);
}
