// Sums and argmax: a tree in shared memory, warp shuffles, the last block that finishes, atomics,
// a tile of cooperative groups, and a grid-wide barrier.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <math_constants.h>
namespace cg = cooperative_groups;

// One partial sum a block; works for any block size.
__global__ void tree(const float* x, float* partial, int n) {
    extern __shared__ float cache[];
    int t = threadIdx.x;
    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    cache[t] = sum;
    __syncthreads();
    for (int active = blockDim.x; active > 1;) {
        int half = (active + 1) / 2;
        if (t + half < active) cache[t] += cache[t + half];
        active = half;
        __syncthreads();
    }
    if (t == 0) partial[blockIdx.x] = cache[0];
}

__device__ float warp_sum(float v) {
    for (int offset = 16; offset; offset /= 2) v += __shfl_down_sync(~0u, v, offset);
    return v;
}

__device__ float block_sum(float v) {
    __shared__ float warps[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    v = warp_sum(v);
    if (lane == 0) warps[warp] = v;
    __syncthreads();
    if (warp == 0) v = warp_sum(lane < blockDim.x / 32 ? warps[lane] : 0.f);
    return v;
}

// Block size a multiple of 32.
__global__ void shuffle(const float* x, float* partial, int n) {
    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void atomic(const float* x, float* total, int n) {
    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(total, sum);
}

__global__ void atomic_each(const float* x, float* total, double* wide, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(total, x[i]);
    atomicAdd(wide, (double)x[i]);
    if (x[i] > 0.f) atomicAdd(count, 1);
}

__device__ unsigned int blocks_done = 0;

// The block that finishes last adds up what the others left in memory.
__global__ void last_block(const float* x, volatile float* partial, float* total, int n) {
    __shared__ bool last;
    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        unsigned int ticket = atomicInc(&blocks_done, gridDim.x);
        last = ticket == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    sum = 0.f;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        *total = sum;
        blocks_done = 0;
    }
}

__global__ void tiles(const float* x, float* total, int n) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = cg::reduce(tile, i < n ? x[i] : 0.f, cg::plus<float>());
    if (tile.thread_rank() == 0) atomicAdd(total, sum);
}

// The whole grid halves the array in place, a barrier of the grid after each step.
__global__ void grid_sync(float* x, int n) {
    cg::grid_group grid = cg::this_grid();
    for (int active = n; active > 1;) {
        int half = (active + 1) / 2;
        for (int i = grid.thread_rank(); i + half < active; i += grid.size()) x[i] += x[i + half];
        active = half;
        grid.sync();
    }
}

// First index of the largest element of each row; ties go to the smaller index.
__global__ void argmax(const float* x, int* where, float* best, int columns) {
    __shared__ float values[32];
    __shared__ int places[32];
    const float* row = x + (size_t)blockIdx.x * columns;
    float v = -CUDART_INF_F;
    int at = columns;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        if (row[i] > v) v = row[i], at = i;
    auto fold = [&] {
        for (int mask = 16; mask; mask /= 2) {
            float other = __shfl_xor_sync(~0u, v, mask);
            int place = __shfl_xor_sync(~0u, at, mask);
            if (other > v || (other == v && place < at)) v = other, at = place;
        }
    };
    fold();
    if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = v, places[threadIdx.x / 32] = at;
    __syncthreads();
    if (threadIdx.x < 32) {
        bool used = threadIdx.x < blockDim.x / 32;
        v = used ? values[threadIdx.x] : -CUDART_INF_F;
        at = used ? places[threadIdx.x] : columns;
        fold();
        if (threadIdx.x == 0) where[blockIdx.x] = at, best[blockIdx.x] = v;
    }
}

// Argmax over everything by one 64-bit atomicMax: ordered float bits above, index below.
__global__ void argmax_packed(const float* x, unsigned long long* best, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned int bits = __float_as_uint(x[i]);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    atomicMax(best, (unsigned long long)bits << 32 | (0xffffffffu - i));
}

// Integer reductions of a warp in one instruction.
__global__ void redux(const int* x, int* sum, int* least, unsigned int* any) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, warp = i / 32;
    int s = __reduce_add_sync(~0u, x[i]), m = __reduce_min_sync(~0u, x[i]);
    unsigned int o = __reduce_or_sync(~0u, (unsigned)x[i]);
    if (i % 32 == 0) sum[warp] = s, least[warp] = m, any[warp] = o;
}
