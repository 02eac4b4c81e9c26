// Kernels whose counters Hopper has units of their own for: tensor and bulk copies, multicast,
// distributed shared memory, products of warpgroups, barriers. See hopper.py for the launches.
#include <cuda_fp16.h>
#include <weft/pipeline.cuh>
#include <weft/wgmma.cuh>

using namespace weft;

__device__ unsigned rank_in_cluster() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ unsigned blocks_of_cluster() {
    unsigned count;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    return count;
}
__device__ void sync_cluster() {
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
__device__ unsigned peer(const void* own, unsigned rank) {
    unsigned at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(at)
                 : "r"(shared_address(own)), "r"(rank));
    return at;
}
// ---- copies between global and shared memory ---------------------------------------------------
// Each block loads `count` boxes of 64 rows, one below the other, from column `column` on.
extern "C" __global__ void tile_loads(const __grid_constant__ TensorMap map, float* y, int count,
                                      int column, int bytes) {
    __shared__ alignas(1024) unsigned char tile[64 * 128];
    __shared__ Barrier full;
    if (threadIdx.x == 0) full.init(1);
    __syncthreads();
    for (int i = 0; i < count; ++i) {
        if (threadIdx.x == 0) {
            full.arrive_expecting(bytes);
            load_box(shared_address(tile), map, full, column, (blockIdx.x * count + i) * 64);
        }
        full.wait(i & 1);
        __syncthreads();
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = reinterpret_cast<float*>(tile)[threadIdx.x];
}

// Each block stores one box of 64 rows and adds another one.
extern "C" __global__ void tile_stores(const __grid_constant__ TensorMap stored,
                                       const __grid_constant__ TensorMap added, int column) {
    __shared__ alignas(1024) float tile[64 * 32];
    for (int i = threadIdx.x; i < 64 * 32; i += blockDim.x) tile[i] = i;
    publish_tiles();
    __syncthreads();
    if (threadIdx.x != 0) return;
    store_box(stored, shared_address(tile), column, blockIdx.x * 64);
    add_box(added, shared_address(tile), column, blockIdx.x * 64);
    commit_stores();
    wait_stores<0>();
}

// Each block copies a range of `bytes`, `gap` bytes apart, and adds it to another array.
extern "C" __global__ void ranges(const char* x, char* y, unsigned* sums, int bytes, int gap) {
    __shared__ alignas(128) char data[8192];
    __shared__ Barrier full;
    if (threadIdx.x != 0) return;
    full.init(1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    full.arrive_expecting(bytes);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(shared_address(data)),
        "l"(x + blockIdx.x * gap), "r"(bytes), "r"(shared_address(&full))
        : "memory");
    full.wait(0);
    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(y + blockIdx.x * gap),
        "r"(shared_address(data)), "r"(bytes)
        : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(
                     reinterpret_cast<char*>(sums) + blockIdx.x * gap),
                 "r"(shared_address(data)), "r"(bytes)
                 : "memory");
    commit_stores();
    wait_stores<0>();
}

// ---- multicast ---------------------------------------------------------------------------------
// Each block of a cluster loads a part of the cluster's tile and sends it to the blocks of `mask`.
extern "C" __global__ void spread(const __grid_constant__ TensorMap map, float* y, int rows,
                                  unsigned mask, int bytes) {
    __shared__ alignas(1024) float tile[8][32 * 32];
    __shared__ Barrier full;
    unsigned rank = rank_in_cluster(), count = blocks_of_cluster();
    if (threadIdx.x == 0) {
        full.init(1);
        publish_barriers();
        if (mask >> rank & 1) full.arrive_expecting(count * bytes);
    }
    sync_cluster();
    if (threadIdx.x == 0) {
        int first = (blockIdx.x / count * count + rank) * rows;
        load_box_multicast(shared_address(tile[rank]), map, full, mask, 0, first);
    }
    if (mask >> rank & 1) full.wait(0);
    float sum = 0;
    for (int i = 0; i < count; ++i) sum += mask >> rank & 1 ? tile[i][threadIdx.x] : 0;
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    sync_cluster();
}

// ---- distributed shared memory -----------------------------------------------------------------
// Reads words of the block `far` ranks on, `step` words apart: 0 reads the block's own memory.
extern "C" __global__ void peer_loads(unsigned* y, int far, int step) {
    __shared__ alignas(128) unsigned words[1024 * 4];
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) words[i] = i;
    sync_cluster();
    unsigned to = (rank_in_cluster() + far) % blocks_of_cluster(), value, four[4];
    unsigned at = peer(words, to);
    asm volatile("ld.shared::cluster.u32 %0, [%1];"
                 : "=r"(value)
                 : "r"(at + threadIdx.x * step * 4)
                 : "memory");
    asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(four[0]), "=r"(four[1]), "=r"(four[2]), "=r"(four[3])
                 : "r"(at + threadIdx.x * 16)
                 : "memory");
    y[blockIdx.x * blockDim.x + threadIdx.x] = value + four[0] + four[1] + four[2] + four[3];
    sync_cluster();
}

// The same with generic addresses.
extern "C" __global__ void peer_pointers(unsigned* y, int far, int step) {
    __shared__ alignas(128) unsigned words[1024 * 4];
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) words[i] = i;
    sync_cluster();
    unsigned to = (rank_in_cluster() + far) % blocks_of_cluster();
    unsigned long long at, own = reinterpret_cast<unsigned long long>(words);
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(at) : "l"(own), "r"(to));
    unsigned* there = reinterpret_cast<unsigned*>(at);
    unsigned value = there[threadIdx.x * step];
    there[2048 + threadIdx.x * step] = value;
    sync_cluster();
    y[blockIdx.x * blockDim.x + threadIdx.x] = words[2048 + threadIdx.x * step];
}

// Stores words to the block `far` ranks on, and adds to others with and without a result.
extern "C" __global__ void peer_stores(unsigned* y, int far, int step) {
    __shared__ alignas(128) unsigned words[1024 * 4];
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) words[i] = 0;
    sync_cluster();
    unsigned to = (rank_in_cluster() + far) % blocks_of_cluster(), old;
    unsigned at = peer(words, to) + threadIdx.x * step * 4;
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(at), "r"(threadIdx.x) : "memory");
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], 1;"
                 : "=r"(old)
                 : "r"(at + 4096)
                 : "memory");
    asm volatile("red.shared::cluster.add.u32 [%0], 2;" ::"r"(at + 8192) : "memory");
    sync_cluster();
    y[blockIdx.x * blockDim.x + threadIdx.x] = words[threadIdx.x * step] + old;
}

// Sends words and sums to the block `far` ranks on; its mbarrier counts the bytes.
extern "C" __global__ void peer_sends(unsigned* y, int far, int bytes) {
    __shared__ alignas(128) unsigned words[4096];
    __shared__ Barrier full;
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) words[i] = 0;
    if (threadIdx.x == 0) {
        full.init(1);
        publish_barriers();
        full.arrive_expecting(bytes);
    }
    sync_cluster();
    unsigned to = (rank_in_cluster() + far) % blocks_of_cluster(), t = threadIdx.x;
    unsigned at = peer(words, to), bar = peer(&full, to);
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
            at + t * 4),
        "r"(t), "r"(bar)
        : "memory");
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1, %1, %1, %1}, "
        "[%2];" ::"r"(at + 4096 + t * 16),
        "r"(t), "r"(bar)
        : "memory");
    asm volatile(
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, "
        "[%2];" ::"r"(at + 2048 + t * 4),
        "r"(t), "r"(bar)
        : "memory");
    full.wait(0);
    y[blockIdx.x * blockDim.x + t] = words[t] + words[1024 + 4 * t] + words[512 + t];
    sync_cluster();
}

// Copies a range to the shared memory of the block `far` ranks on.
extern "C" __global__ void peer_copies(unsigned* y, int far, int bytes) {
    __shared__ alignas(128) unsigned source[1024], target[1024];
    __shared__ Barrier full;
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) source[i] = i + blockIdx.x;
    publish_tiles();
    if (threadIdx.x == 0) {
        full.init(1);
        publish_barriers();
        full.arrive_expecting(bytes);
    }
    sync_cluster();
    unsigned to = (rank_in_cluster() + far) % blocks_of_cluster();
    if (threadIdx.x == 0)
        asm volatile(
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], "
            "%2, [%3];" ::"r"(peer(target, to)),
            "r"(shared_address(source)), "r"(bytes), "r"(peer(&full, to))
            : "memory");
    full.wait(0);
    y[blockIdx.x * blockDim.x + threadIdx.x] = target[threadIdx.x];
    sync_cluster();
}

// ---- products and barriers ---------------------------------------------------------------------
// c[128][16] = a[128][64 steps] b[16][64 steps]: a ring of stages; one thread copies, two
// warpgroups multiply.
constexpr int STAGES = 4;
struct Stage {
    __half left[128 * 64], right[16 * 64];
};
extern "C" __global__ void __launch_bounds__(384)
    products(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c,
             int steps) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Stage* ring = reinterpret_cast<Stage*>(memory);
    __shared__ Stages<STAGES> stages;
    if (threadIdx.x == 0) stages.init(1, 2);
    __syncthreads();
    Turn<STAGES> turn;
    int group = threadIdx.x / 128 - 1;
    if (group < 0) {
        for (int step = 0; threadIdx.x == 0 && step < steps; ++step, turn.next()) {
            Stage& to = ring[turn.stage];
            stages.wait_empty(turn);
            stages.full[turn.stage].arrive_expecting(sizeof(Stage));
            load_box(shared_address(to.left), a, stages.full[turn.stage], step * 64, 0);
            load_box(shared_address(to.right), b, stages.full[turn.stage], step * 64, 0);
        }
        return;
    }
    float sums[2][4];
    for (int step = 0; step < steps; ++step, turn.next()) {
        stages.wait_full(turn);
        unsigned left = shared_address(ring[turn.stage].left) + group * 64 * 128;
        unsigned right = shared_address(ring[turn.stage].right);
        wgmma_begin();
        for (int k = 0; k < 64; k += 16)
            wgmma<__half>(sums, wgmma_rows(left + k * 2), wgmma_rows(right + k * 2),
                          step > 0 || k > 0);
        wgmma_commit();
        wgmma_wait<0>();
        if (threadIdx.x % 128 == 0) stages.empty[turn.stage].arrive();
    }
    wgmma_results(sums);
    int first = group * 64 + threadIdx.x % 128 / 32 * 16;
    for (int n = 0; n < 2; ++n)
        for (int i = 0; i < 4; ++i) c[(first + c_row(i)) * 16 + n * 8 + c_column(i)] = sums[n][i];
}

// Three kinds of barriers, `count` times each: of the block, of two warps, in memory.
extern "C" __global__ void barriers(unsigned* y, int count) {
    __shared__ Barrier bar;
    __shared__ unsigned sums[32];
    if (threadIdx.x == 0) bar.init(blockDim.x);
    __syncthreads();
    unsigned warp = threadIdx.x / 32;
    for (int i = 0; i < count; ++i) {
        if (threadIdx.x % 32 == 0) sums[warp] = i;
        __syncthreads();
        asm volatile("bar.sync %0, 64;" ::"r"(1 + warp / 2) : "memory");
        bar.arrive();
        bar.wait(i & 1);
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = sums[warp];
}
