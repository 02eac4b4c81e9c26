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

// A barrier at which the blocks of a grid meet again and again. Each block has a flag, which counts
// its meetings: the flags are equal before the first launch, and after each.
//
//     weft::Meetings meetings(flags, gridDim.x);
//     meetings.meet(threadIdx.x, blockDim.x, [] { __syncthreads(); });
struct Meetings {
    int* flags;
    int blocks, count;

    __device__ Meetings(int* flags, int blocks)
        : flags(flags), blocks(blocks), count(flags[blockIdx.x]) {
        asm volatile("{ .reg .b32 workspace; mov.b32 workspace, %envreg2; }");
    }
    // Waits until all blocks have come; what they have written before is visible in the L2 cache.
    // `threads` threads of the block call it, which `wait` lets wait for each other.
    template <class Wait>
    __device__ void meet(int thread, int threads, Wait wait) {
        size_t at = __cvta_generic_to_global(flags);
        ++count;
        wait();
        if (thread == 0)
            asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(at + 4 * blockIdx.x),
                         "r"(count)
                         : "memory");
        for (int block = thread; block < blocks; block += threads) {
            int there;
            do
                asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                             : "=r"(there)
                             : "l"(at + 4 * block)
                             : "memory");
            while (there - count < 0);
        }
        wait();
    }
};

}  // namespace weft
