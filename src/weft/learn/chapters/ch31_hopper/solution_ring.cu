// One thread fills stages, 64 consume them, and neither side waits for a whole block.
// map: part = x[1, 64]
#include <weft/pipeline.cuh>

__global__ void squares(const __grid_constant__ weft::TensorMap part, float* y, int steps) {
    __shared__ __align__(128) float ring[4][64];
    __shared__ weft::Stages<4> stages;
    if (threadIdx.x == 0) stages.init(1, 64);
    __syncthreads();
    weft::Turn<4> turn;
    if (threadIdx.x == 64)
        for (int step = 0; step < steps; ++step, turn.next()) {
            stages.wait_empty(turn);
            weft::Barrier& full = stages.full[turn.stage];
            full.arrive_expecting(sizeof ring[0]);
            weft::load_box(weft::shared_address(ring[turn.stage]), part, full, 64 * step,
                           blockIdx.x);
        }
    if (threadIdx.x >= 64) return;
    float sum = 0;
    for (int step = 0; step < steps; ++step, turn.next()) {
        stages.wait_full(turn);
        float v = ring[turn.stage][threadIdx.x];
        stages.empty[turn.stage].arrive();
        sum += v * v;
    }
    y[blockIdx.x * 64 + threadIdx.x] = sum;
}
