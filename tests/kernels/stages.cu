// Kernels whose copies report to mbarriers: rings of stages, filled in several ways.
#include <weft/pipeline.cuh>
#include <weft/warp.cuh>

using namespace weft;
constexpr int PART = 512;

__device__ void copy_bulk(float* to, const float* from, Barrier& full) {
    asm volatile(  // filled
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(shared_address(to)),
        "l"(from), "r"(PART * 4), "r"(shared_address(&full))
        : "memory");
}

// One warp fills, and another one reads.
template <int STAGES>
__global__ void ring(const float* x, float* y, int n) {
    __shared__ alignas(128) float memory[STAGES][PART];
    __shared__ Stages<STAGES> stages;
    if (threadIdx.x == 0) stages.init(1, 1);
    __syncthreads();
    Turn<STAGES> turn;
    float sum = 0;
    for (int at = 0; at < n; at += PART, turn.next()) {
        if (threadIdx.x == 32) {
            stages.wait_empty(turn);
            stages.full[turn.stage].arrive_expecting(PART * 4);
            copy_bulk(memory[turn.stage], x + at, stages.full[turn.stage]);
        } else if (threadIdx.x < 32) {
            stages.wait_full(turn);  // waited
            for (int i = threadIdx.x; i < PART; i += 32) sum += memory[turn.stage][i];  // read
            __syncwarp();
            if (threadIdx.x == 0) stages.empty[turn.stage].arrive();  // released
        }
    }
    if (threadIdx.x < 32) y[blockIdx.x * 32 + threadIdx.x] = sum;
}

// All threads fill by cp.async, and all threads read; a barrier of the block releases a stage.
__global__ void pieces(const float* x, float* y, int n) {
    __shared__ alignas(128) float memory[2][PART];
    __shared__ Barrier full[2];
    if (threadIdx.x == 0) full[0].init(128), full[1].init(128);
    __syncthreads();
    float sum = 0;
    for (int at = 0, step = 0; at < n; at += PART, ++step) {
        float* stage = memory[step % 2];
        copy_async<16>(stage + threadIdx.x * 4, x + at + threadIdx.x * 4);  // filled
        full[step % 2].arrive_after_copies();
        full[step % 2].wait(step / 2 % 2);
        sum += stage[(threadIdx.x + 1) % PART];  // read
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}

// A stage that is read so often that not all events are kept.
__global__ void often(const float* x, float* y, int times) {
    __shared__ alignas(128) float memory[PART];
    __shared__ Barrier full;
    if (threadIdx.x == 0) {
        full.init(1);
        publish_barriers();
        full.arrive_expecting(PART * 4);
        copy_bulk(memory, x, full);
    }
    __syncthreads();
    full.wait(0);
    float sum = 0;
    for (int i = 0; i < times; ++i) sum += memory[(i + threadIdx.x) % PART];
    y[threadIdx.x] = sum;
}

// A stage that is written and read again after its copy has been read.
__global__ void rewritten(const float* x, float* y) {
    __shared__ alignas(128) float memory[PART];
    __shared__ Barrier full;
    if (threadIdx.x == 0) {
        full.init(1);
        publish_barriers();
        full.arrive_expecting(PART * 4);
        copy_bulk(memory, x, full);
    }
    __syncthreads();
    full.wait(0);
    float one = memory[threadIdx.x];  // first
    __syncthreads();
    memory[threadIdx.x] = 2 * one;
    __syncthreads();
    y[threadIdx.x] = memory[(threadIdx.x + 1) % 64];
}
