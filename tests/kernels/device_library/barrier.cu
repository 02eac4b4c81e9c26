// Calls every function of weft/barrier.cuh.
#include <weft/barrier.cuh>

using namespace weft;

// y[i] = the sum of x[t * 64 + 63 - i] over t: 64 threads copy tiles into a ring of two stages, and
// 64 others add them up.
__global__ void sums(const float* x, float* y, int tiles) {
    __shared__ float ring[2][64];
    __shared__ Barrier full[2], empty[2];
    int i = threadIdx.x % 64;
    if (threadIdx.x == 0)
        for (int s = 0; s < 2; ++s) full[s].init(64), empty[s].init(64);
    __syncthreads();
    float sum = 0;
    for (int t = 0; t < tiles; ++t) {
        int stage = t % 2, parity = t / 2 % 2;
        if (threadIdx.x < 64) {
            empty[stage].wait(parity ^ 1);  // the phase before the first one is complete
            copy_async<4>(&ring[stage][i], x + t * 64 + i);
            full[stage].arrive_after_copies();
        } else {
            full[stage].wait(parity);
            sum += ring[stage][63 - i];
            empty[stage].arrive();
        }
    }
    if (threadIdx.x >= 64) y[i] = sum;
}

// Block 1 of a cluster tells block 0 that it may write.
__global__ void turns(float* y) {
    __shared__ Barrier ready;
    unsigned block;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(block));
    if (threadIdx.x == 0) ready.init(2), publish_barriers(), ready.arrive_expecting(0);
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (block == 1 && threadIdx.x == 0) ready.arrive_at(0);
    if (block == 0) ready.wait(0), y[threadIdx.x] = threadIdx.x;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

// The first warp says which phases it finds complete: before, within and after the first one.
__global__ void phases(int* y) {
    __shared__ Barrier barrier;
    if (threadIdx.x == 0) barrier.init(2);
    __syncthreads();
    for (int arrivals = 0; arrivals < 3; ++arrivals) {
        if (threadIdx.x < 32)
            y[threadIdx.x * 3 + arrivals] = barrier.is_complete(0) + 2 * barrier.is_complete(1);
        __syncthreads();
        if (threadIdx.x == 32) barrier.arrive();
        __syncthreads();
    }
}
