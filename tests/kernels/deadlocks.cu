// Kernels that wait: some for ever, some for long. `flag` is 0 unless a row says otherwise.
#include <cooperative_groups.h>

extern "C" {
__global__ void read_flag(volatile int *flag) { while (*flag == 0) { } }
__global__ void take_lock(int *lock) { while (atomicCAS(lock, 0, 1) != 0) { } }
__global__ void exchange_lock(int *lock) { while (atomicExch(lock, 1) != 0) { } }
__global__ void add_nothing(int *flag) { while (atomicAdd(flag, 0) == 0) { } }
__global__ void greatest(int *flag) { while (atomicMax(flag, 0) < 5) { } }
__global__ void back_off(int *lock) {
    int ns = 8;
    while (atomicCAS(lock, 0, 1) != 0) {
        __nanosleep(ns);
        if (ns < 256) ns *= 2;
    }
}
// Comes back to the same state only after seven turns.
__global__ void seven_places(volatile int *flags) {
    int k = 0;
    while (flags[k] == 0) k = k == 6 ? 0 : k + 1;
}
// The loop has barriers and stores to shared memory, as Triton writes them.
__global__ void across_barriers(int *lock) {
    __shared__ int old;
    do {
        if (threadIdx.x == 0) old = atomicCAS(lock, 0, 1);
        __syncthreads();
        int seen = old;
        __syncthreads();
        if (seen == 0) break;
    } while (true);
}
__global__ void barrier_and_flag(volatile int *flag) {
    if (threadIdx.x < 32) __syncthreads();
    else while (*flag == 0) { }
}
// One lane holds the lock and waits for the others, which wait for the lock.
__global__ void within_a_warp(int *lock) {
    while (atomicCAS(lock, 0, 1) != 0) { }
    __syncwarp();
    atomicExch(lock, 0);
}
// Nobody arrives.
__global__ void empty_mbarrier() {
    __shared__ unsigned long long bar;
    unsigned at = (unsigned)__cvta_generic_to_shared(&bar), done = 0;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at) : "memory");
    __syncthreads();
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0;"
                     " selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
}
// ---- these end ----
__global__ void counts(volatile int *flag, unsigned n) {
    unsigned k = 0;
    while (*flag == 0 && k < n) k++;
    if (threadIdx.x == 0) flag[1] = int(k);
}
__global__ void adds(int *sum, unsigned n) {
    for (unsigned k = 0; k < n; k++)
        if (atomicAdd(sum, 1) < 0) sum[1] = 1;
}
// All blocks wait for the first, and it computes for long.
__global__ void waits_for_long_work(volatile int *flag, unsigned n) {
    if (blockIdx.x > 0) {
        while (*flag == 0) { }
    } else {
        unsigned x = 1;
        for (unsigned k = 0; k < n; k++) x = (x ^ x >> 7) * 1664525u + 1013904223u;
        *flag = x | 1;
    }
}
// One block stores while others wait: the same value, until the last time.
__global__ void stores_the_same(volatile int *flag, unsigned n) {
    if (blockIdx.x) {
        while (*flag < 2) { }
    } else {
        for (unsigned k = 0; k < n; k++) flag[0] = k + 1 < n ? 1 : 2;
    }
}
__global__ void by_the_clock(volatile int *flag) {
    long long start = clock64();
    while (*flag == 0 && clock64() - start < 20000000) { }
    flag[1] = 1;
}
__global__ void grid_sync(int *sums, int rounds) {
    auto grid = cooperative_groups::this_grid();
    for (int k = 0; k < rounds; k++) {
        if (threadIdx.x == 0) atomicAdd(&sums[k], 1);
        grid.sync();
        if (sums[k] != int(gridDim.x)) sums[rounds] = -1;
    }
}
// Two launches that wait for each other.
__global__ void meets(volatile int *flags, int own) {
    flags[own] = 1;
    while (flags[1 - own] == 0) { }
}
}
