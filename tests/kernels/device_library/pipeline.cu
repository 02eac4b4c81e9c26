// Calls every function of weft/pipeline.cuh.
#include <weft/pipeline.cuh>

using namespace weft;

// y[i] = the sum over t of x[t * 64 + i] of this step, times that of the step before: one thread
// fills a ring of three stages, and two warps consume it.
__global__ void products(const __grid_constant__ TensorMap x, float* y, int steps) {
    __shared__ __align__(128) float ring[3][64];
    __shared__ Stages<3> stages;
    if (threadIdx.x == 0) stages.init(1, 64);
    __syncthreads();
    Turn<3> turn;
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0)
            for (int step = 0; step < steps; ++step, turn.next()) {
                stages.wait_empty(turn);
                stages.full[turn.stage].arrive_expecting(sizeof ring[0]);
                load_box(shared_address(ring[turn.stage]), x, stages.full[turn.stage], 64 * step);
            }
        return;
    }
    float sum = 0;
    int i = threadIdx.x - 32;
    for (int step = 0; step < steps; ++step, turn.next()) {
        stages.wait_full(turn);
        if (step == 0) continue;
        sum += ring[turn.stage][i] * ring[turn.before()][i];
        stages.empty[turn.before()].arrive();
    }
    y[i] = sum;
}

// y[2 i], y[2 i + 1] = the stage and the parity after i steps, which are skipped after `before`.
__global__ void skipped(int* y, int before) {
    Turn<3> turn;
    for (int step = 0; step < before; ++step) turn.next();
    turn.skip(threadIdx.x - before);
    y[threadIdx.x * 2] = turn.stage, y[threadIdx.x * 2 + 1] = turn.parity;
}
