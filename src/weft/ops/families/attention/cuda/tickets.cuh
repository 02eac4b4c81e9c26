// Work that blocks draw from a counter, for warps that are specialised.
#pragma once
#include <weft/barrier.cuh>
#include "mma.cuh"

// The tiles of a block. Its first one has the block's number, and others are drawn from a counter,
// so that blocks with short tiles take more of them. All warps take each number; one thread of the
// copying warpgroup draws them, a tile ahead.
struct Tickets {
    int numbers[2];
    Barrier full[2], empty[2];

    // By one thread, before a barrier of the block.
    __device__ void start(int warps) {
        for (int i = 0; i < 2; ++i) full[i].init(1), empty[i].init(warps);
        numbers[0] = blockIdx.x;
        full[0].arrive();
    }
    __device__ int take(int round) {
        int slot = round % 2;
        full[slot].wait(round / 2 % 2);
        int number = numbers[slot];
        __syncwarp();
        if (threadIdx.x % 32 == 0) empty[slot].arrive();
        return number;
    }
    __device__ static int draw(int* counters) { return gridDim.x + atomicAdd(counters, 1); }
    __device__ void put(int round, int number) {
        int slot = round % 2;
        empty[slot].wait(round / 2 % 2 ^ 1);
        numbers[slot] = number;
        full[slot].arrive();
    }
    // By one thread of each block, which draws no more. The last one resets the counters for the
    // next launch.
    __device__ static void end(int* counters) {
        __threadfence();
        if (atomicAdd(counters + 1, 1) == gridDim.x - 1) counters[0] = counters[1] = 0;
    }
};
