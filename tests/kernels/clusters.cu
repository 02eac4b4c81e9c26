// Kernels for clusters of blocks: random programs, everyday kernels, and wrong uses.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__device__ unsigned near_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ unsigned peer(unsigned address, unsigned rank) {
    unsigned r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
    return r;
}

__device__ void expect(unsigned long long* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(near_address(bar)), "r"(bytes) : "memory");
}

__device__ bool passed(unsigned long long* bar, int parity) {
    unsigned done;
    asm volatile("{ .reg .pred p;\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(near_address(bar)), "r"(parity) : "memory");
    return done;
}

__device__ void init(unsigned long long* bar) {
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(near_address(bar)));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
}

// Steps of four numbers: what to do, the distance to the peer, and a place (a * t + b) % 64.
extern "C" __global__ void program(const int* steps, int count, const int* data, int* out) {
    __shared__ unsigned long long bar;
    __shared__ alignas(128) int v[64], w[64];
    cg::cluster_group c = cg::this_cluster();
    unsigned n = c.num_blocks(), rank = c.block_rank(), t = threadIdx.x;
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int parity = 0;
    init(&bar);
    v[t] = 1000 * block + t;
    w[t] = 0;
    c.sync();
    for (int i = 0; i < count; i++) {
        int op = steps[4 * i], k = steps[4 * i + 1], a = steps[4 * i + 2], b = steps[4 * i + 3];
        unsigned to = (rank + k) % n, at = (a * t + b) % 64;
        if (op == 0) {  // read
            int x = c.map_shared_rank(v, to)[at];
            c.sync();
            v[t] = x + i;
        } else if (op == 1) {  // add, to a block of each thread's own
            atomicAdd(c.map_shared_rank(w, (rank + k * t) % n) + at, v[t]);
            c.sync();
            v[t] ^= w[t];
            w[t] = 0;
        } else if (op == 2) {  // push
            if (t == 0) expect(&bar, 256);
            c.sync();
            asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                         :: "r"(peer(near_address(w + (t ^ (b % 64))), to)), "r"(v[t] + b), "r"(peer(near_address(&bar), to)) : "memory");
            while (!passed(&bar, parity)) {}
            parity ^= 1;
            v[t] = w[t];
            __syncthreads();
            w[t] = 0;
        } else if (op == 3) {  // copy
            if (t == 0) expect(&bar, 256);
            asm volatile("fence.proxy.async;" ::: "memory");
            c.sync();
            if (t == 0)
                asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                             :: "r"(peer(near_address(w), to)), "r"(near_address(v)), "r"(peer(near_address(&bar), to)) : "memory");
            while (!passed(&bar, parity)) {}
            parity ^= 1;
            c.sync();
            v[t] = 3 * w[63 - t] + 1;
            __syncthreads();
            w[t] = 0;
        } else if (op == 4) {  // multicast, by the block of rank k % n
            int mask = (b | 1 << (k % n)) & ((1 << n) - 1);
            bool mine = mask >> rank & 1;
            if (t == 0 && mine) expect(&bar, 256);
            c.sync();
            if (t == 0 && rank == k % n)
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;"
                             :: "r"(near_address(w)), "l"(data + 64 * (a % 4)), "r"(near_address(&bar)), "h"((short)mask) : "memory");
            if (mine) {
                while (!passed(&bar, parity)) {}
                parity ^= 1;
            }
            v[t] += w[t];
            __syncthreads();
            w[t] = 0;
        } else {  // exchange, four words at a time
            if (t < 16) {
                int4 x = ((const int4*)c.map_shared_rank(v, to))[(t + b) % 16];
                ((int4*)w)[t] = make_int4(x.w, x.z, x.y, x.x + t);
            }
            c.sync();
            v[t] = w[t];
            w[t] = 0;
        }
        c.sync();
    }
    out[64 * block + t] = v[t];
}

// The sum of a row for each cluster: partial sums of the blocks meet in rank 0.
extern "C" __global__ void row_sums(const float* x, float* sums, int width) {
    cg::cluster_group c = cg::this_cluster();
    __shared__ float parts[8], total;
    if (threadIdx.x == 0) total = 0;
    float sum = 0;
    const float* row = x + blockIdx.y * width;
    for (int i = c.thread_rank(); i < width; i += c.num_threads()) sum += row[i];
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    c.sync();
    if (threadIdx.x == 0) {
        for (int i = 1; i < blockDim.x / 32; i++) parts[0] += parts[i];
        atomicAdd(c.map_shared_rank(&total, 0), parts[0]);
    }
    c.sync();
    if (c.thread_rank() == 0) sums[blockIdx.y] = total;
}

// A histogram whose bins are spread over the blocks of a cluster.
extern "C" __global__ void histogram(const int* x, int n, int* bins, int count) {
    extern __shared__ int mine[];
    cg::cluster_group c = cg::this_cluster();
    int each = count / c.num_blocks();
    for (int i = threadIdx.x; i < each; i += blockDim.x) mine[i] = 0;
    c.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(c.map_shared_rank(mine, x[i] / each) + x[i] % each, 1);
    c.sync();
    for (int i = threadIdx.x; i < each; i += blockDim.x)
        atomicAdd(&bins[c.block_rank() * each + i], mine[i]);
}

// Rank 0 expects and completes bytes at the mbarrier of rank 1, which waits for them.
extern "C" __global__ void remote_bytes(int* out) {
    __shared__ unsigned long long bar;
    __shared__ alignas(8) long long pair;
    cg::cluster_group c = cg::this_cluster();
    init(&bar);
    c.sync();
    unsigned far = peer(near_address(&bar), 1), to = peer(near_address(&pair), 1);
    if (c.thread_rank() == 0) {
        asm volatile("mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%0], 16;" :: "r"(far) : "memory");
        asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 16;" :: "r"(far) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], 8;" :: "r"(far) : "memory");
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];"
                     :: "r"(to), "l"(0x700000005ll), "r"(far) : "memory");
    }
    if (c.block_rank() == 1 && threadIdx.x == 3) {
        while (!passed(&bar, 0)) {}
        out[0] = (int)pair, out[1] = (int)(pair >> 32);
    }
    c.sync();
}

// ---- wrong uses ----------------------------------------------------------------------------------
extern "C" __global__ void exits_early(int* out) {
    __shared__ int v;
    cg::cluster_group c = cg::this_cluster();
    v = c.block_rank();
    c.sync();
    if (c.block_rank() == 0) {
        asm volatile("nanosleep.u32 20;");
        out[0] = *c.map_shared_rank(&v, 1);
    }
    if (c.block_rank() == 0) out[1] = *c.map_shared_rank(&v, 1);
}

extern "C" __global__ void beyond_the_cluster(int* out, int rank) {
    __shared__ int v;
    v = 1;
    cg::this_cluster().sync();
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(out[0]) : "r"(peer(near_address(&v), rank)));
    cg::this_cluster().sync();
}

extern "C" __global__ void beyond_the_memory(int* out, int index) {
    __shared__ int v[4];
    cg::cluster_group c = cg::this_cluster();
    v[threadIdx.x % 4] = 1;
    c.sync();
    asm volatile("st.shared::cluster.u32 [%0], 7;" :: "r"(peer(near_address(v) + 4 * index, 1)));
    c.sync();
    c.map_shared_rank(v, 1)[index] = 8;
    c.sync();
}

extern "C" __global__ void arrives_twice(int* out) {
    asm volatile("barrier.cluster.arrive.aligned;");
    if (blockIdx.x == 1) asm volatile("barrier.cluster.arrive.aligned;");
    asm volatile("barrier.cluster.wait.aligned;");
}

extern "C" __global__ void never_arrives(int* out) {
    if (blockIdx.x == 1) asm volatile("barrier.cluster.wait.aligned;");
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
}

extern "C" __global__ void one_block_waits(int* out) {
    if (blockIdx.x % 2 == 0 && threadIdx.x < 32) cg::this_cluster().sync();
    __syncthreads();
    cg::this_cluster().sync();
}

extern "C" __global__ void barrier_and_mbarrier(int* out) {
    __shared__ unsigned long long bar;
    init(&bar);
    cg::this_cluster().sync();
    if (blockIdx.x % 2 == 0) cg::this_cluster().sync();
    else while (!passed(&bar, 0)) {}
}

extern "C" __global__ void multicasts_too_far(const int* data) {
    __shared__ unsigned long long bar;
    __shared__ alignas(128) int w[64];
    init(&bar);
    cg::this_cluster().sync();
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;"
                     :: "r"(near_address(w)), "l"(data), "r"(near_address(&bar)), "h"((short)5) : "memory");
    cg::this_cluster().sync();
}

// The second block expects 16 bytes more than it gets.
extern "C" __global__ void multicasts_too_little(const int* data) {
    __shared__ unsigned long long bar;
    __shared__ alignas(128) int w[64];
    init(&bar);
    if (threadIdx.x == 0) expect(&bar, 256 + 16 * cg::this_cluster().block_rank());
    cg::this_cluster().sync();
    if (threadIdx.x == 0 && cg::this_cluster().block_rank() == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;"
                     :: "r"(near_address(w)), "l"(data), "r"(near_address(&bar)), "h"((short)3) : "memory");
    while (!passed(&bar, 0)) {}
    cg::this_cluster().sync();
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) pairs(int* out) {
    if (threadIdx.x == 0) out[blockIdx.x] = cg::this_cluster().num_blocks();
}

extern "C" __global__ void plain(int* out) { out[blockIdx.x] = gridDim.x; }
