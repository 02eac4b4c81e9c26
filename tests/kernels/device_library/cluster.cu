// Calls every function of weft/cluster.cuh.
#include <weft/cluster.cuh>

using namespace weft;

// y[block] = the sums of all blocks of the cluster, each of its part of x.
__global__ void totals(const float* x, float* y) {
    __shared__ float4 pairs[32];
    __shared__ float first;
    float mine = x[blockIdx.x * 32 + threadIdx.x];
    pairs[threadIdx.x] = make_float4(mine, 2 * mine, 3 * mine, 4 * mine);
    if (threadIdx.x == 0) first = mine;
    cluster_sync();
    float4 sum = {};
    float firsts = 0;
    for (int block = 0; block < cluster_blocks(); ++block) {
        float4 other = load_from(block, pairs + threadIdx.x);
        sum.x += other.x, sum.y += other.y, sum.z += other.z, sum.w += other.w;
        firsts += load_from(block, &first);
    }
    cluster_sync();
    float* to = y + (blockIdx.x * 32 + threadIdx.x) * 6;
    to[0] = sum.x, to[1] = sum.y, to[2] = sum.z, to[3] = sum.w, to[4] = firsts;
    to[5] = cluster_block();
}

// y[block] = the sums of what all blocks of the cluster give each other.
__global__ void given(const float4* x, float4* y) {
    __shared__ float4 room[4][32];
    __shared__ Barrier arrived;
    if (threadIdx.x == 0) {
        arrived.init(1);
        arrived.arrive_expecting(sizeof room);
        publish_barriers();
    }
    cluster_arrive();
    float4 mine = x[blockIdx.x * 32 + threadIdx.x], sum = {};
    cluster_wait();
    for (int block = 0; block < 4; ++block)
        store_to(block, &room[cluster_block()][threadIdx.x], mine, arrived);
    arrived.wait(0);
    for (int block = 0; block < 4; ++block) {
        float4 other = room[block][threadIdx.x];
        sum.x += other.x, sum.y += other.y, sum.z += other.z, sum.w += other.w;
    }
    y[blockIdx.x * 32 + threadIdx.x] = sum;
}

// y[block] = the largest sum of x of a block of the cluster, and the number of that block.
__global__ void largest(const float* x, float2* y) {
    float2 mine = make_float2(-1, -1);
    if (threadIdx.x == 0) {
        mine = make_float2(0, cluster_block());
        for (int i = 0; i < 32; ++i) mine.x += x[blockIdx.x * 32 + i];
    }
    float2 all = cluster_reduce(mine, make_float2(-1e9f, -1),
                                [](float2 a, float2 b) { return a.x > b.x ? a : b; });
    y[blockIdx.x * 32 + threadIdx.x] = all;
    cluster_wait();
}
