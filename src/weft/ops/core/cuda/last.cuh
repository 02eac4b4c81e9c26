// The block that comes last sees what all blocks have written.
#pragma once

// Is this the last of `parts` blocks to come here? Its threads see what the others have written
// before.
__device__ inline bool is_last(int* counter, int parts) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(counter, 1) == parts - 1;
        if (last) *counter = 0;  // for the next launch
    }
    __syncthreads();
    __threadfence();
    return last;
}
