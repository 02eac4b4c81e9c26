// A ring of stages in shared memory: one warp fills them by bulk copies, four warps empty them.
#include <weft/pipeline.cuh>
#include <weft/warp.cuh>
using namespace weft;

constexpr int STAGES = 4, PART = 1024;

__device__ void copy_bulk(float* to, const float* from, int bytes, Barrier& full) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(&full))
        : "memory");
}

__global__ void scale(const float* x, float* y, int n) {
    __shared__ alignas(128) float ring[STAGES][PART];
    __shared__ Stages<STAGES> stages;
    if (threadIdx.x == 0) stages.init(1, 4);
    __syncthreads();
    Turn<STAGES> turn;
    for (int at = blockIdx.x * PART; at < n; at += gridDim.x * PART, turn.next()) {
        Barrier& full = stages.full[turn.stage];
        float* stage = ring[turn.stage];
        if (threadIdx.x == 128) {
            stages.wait_empty(turn);
            full.arrive_expecting(PART * 4);
            copy_bulk(stage, x + at, PART * 4, full);
        } else if (threadIdx.x < 128) {
            stages.wait_full(turn);
            for (int i = threadIdx.x; i < PART; i += 128) y[at + i] = 2 * stage[i];
            __syncwarp();
            if (lane_index() == 0) stages.empty[turn.stage].arrive();
        }
    }
}
