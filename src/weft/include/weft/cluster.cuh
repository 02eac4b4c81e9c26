// Clusters: blocks that run at the same time and read each other's shared memory. Needs sm_90.
//
//     __shared__ float sum;
//     if (threadIdx.x == 0) sum = mine;
//     weft::cluster_sync();  // all blocks have written
//     float total = 0;
//     for (int block = 0; block < weft::cluster_blocks(); ++block)
//         total += weft::load_from(block, &sum);
//     weft::cluster_sync();  // no block ends while others read its memory
#pragma once
#include "barrier.cuh"
#include "warp.cuh"

namespace weft {

// Returns the number of this block in its cluster, and the number of blocks.
__device__ inline int cluster_block() {
    int at;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(at));
    return at;
}
__device__ inline int cluster_blocks() {
    int count;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    return count;
}

// Waits for all threads of all blocks that have not ended; what they have written is visible.
__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    asm volatile("barrier.cluster.wait;" ::: "memory");
}

// The same in two parts, for blocks that only have to be there with their barriers, which
// publish_barriers() has published: what threads have written otherwise is not visible. Threads
// that end need not wait.
__device__ inline void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }

// Stores at the address `shared` in another block of the cluster; 16 bytes arrive at the barrier at
// the address of `arrived` there.
__device__ inline void store_to(int block, float4* shared, float4 x, Barrier& arrived) {
    asm volatile(
        "{ .reg .b32 there, at; mapa.shared::cluster.u32 there, %0, %2;"
        " mapa.shared::cluster.u32 at, %1, %2;"
        " st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%3, %4, %5, %6},"
        " [at]; }" ::"r"(shared_address(shared)),
        "r"(shared_address(&arrived)), "r"(block), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
        : "memory");
}

// Returns what lies at the address `shared` in another block of the cluster.
__device__ inline float load_from(int block, const float* shared) {
    float x;
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %1, %2;"
        " ld.shared::cluster.f32 %0, [there]; }"
        : "=f"(x)
        : "r"(shared_address(shared)), "r"(block)
        : "memory");
    return x;
}
__device__ inline float4 load_from(int block, const float4* shared) {
    float4 x;
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5;"
        " ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
        : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
        : "r"(shared_address(shared)), "r"(block)
        : "memory");
    return x;
}

// Returns the combination of a value of each block, in every thread of all blocks; each has the
// same bits if join(a, b) == join(b, a). The value of a block is that of its thread 0, of at most
// 16 bytes; `identity` changes no value. All threads of a cluster of up to 16 blocks call it once,
// and cluster_wait() before they end: others may still read.
template <class T, class Join>
__device__ inline T cluster_reduce(const T& v, const T& identity, Join join) {
    static_assert(sizeof(T) <= 16, "16 bytes");
    __shared__ float4 own;
    if (threadIdx.x == 0) memcpy(&own, &v, sizeof(T));
    cluster_sync();
    int block = lane_index() % 16;
    T all = identity;
    if (block < cluster_blocks()) {
        float4 there = load_from(block, &own);
        memcpy(&all, &there, sizeof(T));
    }
    asm volatile("barrier.cluster.arrive;" ::: "memory");  // this thread has read
    return group_reduce<16>(all, join);
}

}  // namespace weft
