// The counts of steps, in the memory of the device, so that a CUDA graph can hold a step.
#pragma once
#include <weft/block.cuh>

#include "table.cuh"

using namespace weft;

// Adds 1 to the step counts, which are the last list: in the last block, when all have read them.
__device__ inline void count_step(const Table& table, int* counter) {
    if (!is_last_block(counter, gridDim.x)) return;
    for (int t = threadIdx.x; t < table.tensors; t += blockDim.x)
        *table.at<float>(table.lists - 1, t) += 1.0f;
}
