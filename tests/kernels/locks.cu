// Mutual exclusion: threads, warps and blocks that wait for each other.

// Every thread takes the lock in turn, lanes of one warp too; the loop ends for the one who has
// done its work, so that it works on hardware without independent thread scheduling as well.
__global__ void per_thread(int* lock, volatile int* counter, int n) {
    if (blockIdx.x * blockDim.x + threadIdx.x >= n) return;
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *counter = *counter + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

// The textbook form: spin first, then work. Needs lanes that progress on their own.
__global__ void spin_first(int* lock, volatile int* counter, int n) {
    if (blockIdx.x * blockDim.x + threadIdx.x >= n) return;
    while (atomicCAS(lock, 0, 1) != 0) {}
    *counter = *counter + 1;
    __threadfence();
    atomicExch(lock, 0);
}

// Lane 0 takes the lock for its warp.
__global__ void per_warp(int* lock, volatile int* counters, int rounds, int work) {
    int lane = threadIdx.x % 32;
    for (int r = 0; r < rounds; r++) {
        if (lane == 0)
            while (atomicCAS(lock, 0, 1) != 0) {}
        __syncwarp();
        int before = counters[lane];
        for (int i = 0; i < work; i++) counters[32 + lane] = i;
        counters[lane] = before + 1;
        __threadfence();
        __syncwarp();
        if (lane == 0) atomicExch(lock, 0);
    }
}

// Thread 0 takes the lock for its block, with a ticket: first come, first served.
__global__ void per_block(unsigned* tickets, volatile unsigned* serving, volatile int* counters) {
    if (threadIdx.x == 0) {
        unsigned mine = atomicAdd(tickets, 1u);
        while (*serving != mine) __nanosleep(20);
    }
    __syncthreads();
    counters[threadIdx.x] = counters[threadIdx.x] + 1;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *serving = *serving + 1;
}

// A chain through the blocks: each waits for the flag of the one before it.
__global__ void chain(volatile int* flags, int* order, int* count) {
    if (threadIdx.x == 0) {
        while (blockIdx.x != 0 && flags[blockIdx.x - 1] == 0) {}
        order[atomicAdd(count, 1)] = blockIdx.x;
        __threadfence();
        flags[blockIdx.x] = 1;
    }
}

// Two warps of a block hand a value to and fro through shared memory.
__global__ void ping_pong(int* out, int rounds) {
    __shared__ volatile int ball;
    if (threadIdx.x == 0) ball = 0;
    __syncthreads();
    int side = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0)
        for (int r = 0; r < rounds; r++) {
            while ((ball & 1) != side) {}
            ball = ball + 1;
        }
    __syncthreads();
    if (threadIdx.x == 0) *out = ball;
}
