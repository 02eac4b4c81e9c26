// A barrier of blocks that run at the same time. Its kernel is launched cooperatively: weft does so
// for kernels that ask for the workspace of their grid, as those of cooperative groups do.
//
//     found[block] = mine;
//     int ticket = weft::meet_blocks(counter, blocks);
//     float all = __ldcg(found + other);  // what another block has written
//     weft::leave_blocks(counter, blocks, ticket);
#pragma once

namespace weft {

// Waits until `blocks` blocks have called it with this counter; what they have written before is
// visible in the L2 cache. `counter` is 0 before the launch. All threads of the block call it; the
// result is for leave_blocks.
__device__ inline int meet_blocks(int* counter, int blocks) {
    int ticket = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("{ .reg .b32 workspace; mov.b32 workspace, %envreg2; }");
        int here;
        size_t at = __cvta_generic_to_global(counter);
        asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;"
                     : "=r"(here)
                     : "l"(at)
                     : "memory");
        for (here++; here < blocks;)
            asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(here) : "l"(at) : "memory");
        ticket = atomicAdd(counter, 1);
    }
    __syncthreads();
    return ticket;
}

// Makes the counter 0 again when the last block has left. Call it late: until then the ticket is
// under way.
__device__ inline void leave_blocks(int* counter, int blocks, int ticket) {
    if (threadIdx.x == 0 && ticket == 2 * blocks - 1)
        asm volatile("st.relaxed.gpu.global.s32 [%0], 0;" ::"l"(__cvta_generic_to_global(counter))
                     : "memory");
}

// A barrier at which blocks meet again and again. `counter` is 0 before the launch, and again after
// it. One thread of each block calls the functions, between two barriers of its block.
struct Meetings {
    int* counter;
    int blocks, goal = 0;

    __device__ Meetings(int* counter, int blocks) : counter(counter), blocks(blocks) {
        asm volatile("{ .reg .b32 workspace; mov.b32 workspace, %envreg2; }");
    }
    // Waits until all blocks have come; what they have written before is visible in the L2 cache.
    __device__ void meet() {
        size_t at = __cvta_generic_to_global(counter);
        goal += blocks;
        asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(at) : "memory");
        int here;
        do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(here) : "l"(at) : "memory");
        while (here < goal);
    }
    // Ends the meetings: the last block that calls it makes the counter 0 again.
    __device__ void leave() {
        if (atomicAdd(counter, 1) == goal + blocks - 1)
            asm volatile(
                "st.relaxed.gpu.global.s32 [%0], 0;" ::"l"(__cvta_generic_to_global(counter))
                : "memory");
    }
};

}  // namespace weft
