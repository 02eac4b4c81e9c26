// Calls every function of weft/block.cuh.
#include <weft/block.cuh>

using namespace weft;

// [reduction][thread], one after the other.
template <int THREADS>
__global__ void reductions(const float* x, float* y) {
    int i = threadIdx.x;
    y[i] = block_sum<THREADS>(x[i]);
    y[THREADS + i] = block_max<THREADS>(x[i]);
    y[2 * THREADS + i] = block_reduce<THREADS>(-x[i], lowest(), Maximum());
    y[3 * THREADS + i] = block_sum<THREADS>(y[i]);
}

// The sum of all blocks' sums, by the block that comes last.
__global__ void total(const int* x, int* partial, int* counter, int* y) {
    int sum = block_sum<64>(x[blockIdx.x * 64 + threadIdx.x]);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
    if (!is_last_block(counter, gridDim.x)) return;
    sum = block_sum<64>(threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0);
    if (threadIdx.x == 0) *y = sum;
}

// One warp makes what two others take; the fourth has no part in it.
__global__ void hand_over(const int* x, int* y) {
    __shared__ int made[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) {
        made[lane] = x[lane] * 2;
        barrier_arrive<96>(1);
    } else if (warp < 3) {
        barrier_sync<96>(1);
        y[(warp - 1) * 32 + lane] = made[31 - lane];
    }
}

// Each block adds its number to what the block before it tells.
template <class Word>
__global__ void chain(Word* told) {
    Word before = 1;
    if (blockIdx.x)
        while (!(before = load_relaxed(told + blockIdx.x - 1))) {}
    store_relaxed(told + blockIdx.x, before + blockIdx.x);
}

template __global__ void chain<unsigned>(unsigned*);
template __global__ void chain<unsigned long long>(unsigned long long*);
template __global__ void reductions<16>(const float*, float*);
template __global__ void reductions<32>(const float*, float*);
template __global__ void reductions<96>(const float*, float*);
template __global__ void reductions<256>(const float*, float*);
