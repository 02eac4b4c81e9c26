// Barriers in shared memory (mbarrier). Threads arrive without waiting, and copies arrive when they
// are complete; others wait for them. Needs sm_80.
//
// A barrier has phases: one is complete when all arrivals that it expects have come, and the next
// begins. Phases alternate in parity, from 0 on: with a ring of stages, use n of a stage has the
// parity n % 2.
//
//     __shared__ weft::Barrier full;
//     if (threadIdx.x == 0) full.init(128);
//     __syncthreads();
//     if (copies) full.arrive_after_copies();  // 128 threads, each after its copy_async
//     else full.wait(0);                       // now the copies of all of them are there
#pragma once
#include "async.cuh"

namespace weft {

// A barrier; a variable in shared memory.
struct Barrier {
    unsigned long long word;

    // Expects `arrivals` in each phase. One thread calls it, before a barrier of the block.
    __device__ void init(int arrivals) {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals)
                     : "memory");
    }
    // Arrives: what this thread has done before is visible to those that wait.
    __device__ void arrive() {
        asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(
                         shared_address(this))
                     : "memory");
    }
    // Arrives, and lets the phase expect so many bytes more, of copies of boxes (tma.cuh). Needs
    // sm_90.
    __device__ void arrive_expecting(int bytes) {
        asm volatile(
            "{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(
                shared_address(this)),
            "r"(bytes)
            : "memory");
    }
    // Arrives at the barrier at the same address in another block of the cluster. What this thread
    // has read before may be overwritten then; what it has written is not published. Needs sm_90.
    __device__ void arrive_at(int block) {
        asm volatile(
            "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
            " mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(shared_address(this)),
            "r"(block)
            : "memory");
    }
    // Arrives when all earlier asynchronous copies of this thread are complete.
    __device__ void arrive_after_copies() {
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(this))
                     : "memory");
    }
    // Says whether the phase of this parity is complete. The phase before the first one, of parity
    // 1, counts as complete.
    __device__ bool is_complete(int parity) {
        int done;
        asm volatile(
            "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2;"
            " selp.b32 %0, 1, 0, p; }"
            : "=r"(done)
            : "r"(shared_address(this)), "r"(parity)
            : "memory");
        return done;
    }
    // Waits until it is.
    __device__ void wait(int parity) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
        while (!is_complete(parity)) {}
#else
        int done;
        do {
            asm volatile(
                "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
                " selp.b32 %0, 1, 0, p; }"
                : "=r"(done)
                : "r"(shared_address(this)), "r"(parity)
                : "memory");
        } while (!done);
#endif
    }
};

// Makes initialised barriers visible to copies of boxes and to the other blocks of a cluster: the
// thread that calls init calls it, before the barrier of the block or the cluster. Needs sm_90.
__device__ inline void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

}  // namespace weft
