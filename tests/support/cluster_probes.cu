// Probes of thread-block clusters: see cluster_probes.py. Each block writes its results to its own
// part of `out`, in the order of block numbers.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__device__ unsigned block_number() {
    return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

__device__ unsigned own_rank() {
    unsigned r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

__device__ unsigned rank_count() {
    unsigned r;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
    return r;
}

__device__ void arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ void wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ void meet() { arrive(); wait(); }

__device__ unsigned near_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ unsigned peer(unsigned address, unsigned rank) {
    unsigned r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
    return r;
}

__device__ unsigned long long far_peer(const void* p, unsigned rank) {
    unsigned long long r;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(r) : "l"(p), "r"(rank));
    return r;
}

__device__ void init(unsigned long long* bar, int count) {
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(near_address(bar)), "r"(count));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    meet();
}

__device__ void expect(unsigned long long* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(near_address(bar)), "r"(bytes) : "memory");
}

__device__ void await(unsigned long long* bar, int parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(near_address(bar)), "r"(parity) : "memory");
}

#define SREG(i, name) { unsigned v; asm volatile("mov.u32 %0, %%" name ";" : "=r"(v)); row[i] = v; }

extern "C" __global__ void registers(int* out) {
    if (threadIdx.x != 33) return;
    int* row = out + 32 * block_number();
    SREG(0, "clusterid.x") SREG(1, "clusterid.y") SREG(2, "clusterid.z")
    SREG(3, "nclusterid.x") SREG(4, "nclusterid.y") SREG(5, "nclusterid.z")
    SREG(6, "cluster_ctaid.x") SREG(7, "cluster_ctaid.y") SREG(8, "cluster_ctaid.z")
    SREG(9, "cluster_nctaid.x") SREG(10, "cluster_nctaid.y") SREG(11, "cluster_nctaid.z")
    SREG(12, "cluster_ctarank") SREG(13, "cluster_nctarank")
    SREG(14, "ctaid.x") SREG(15, "ctaid.y") SREG(16, "ctaid.z")
    SREG(17, "nctaid.x") SREG(18, "nctaid.y") SREG(19, "nctaid.z")
    unsigned is;
    asm volatile("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }"
                 : "=r"(is));
    row[20] = is;
}

// For each rank: distances of mapped addresses, ranks of addresses, tests of spaces.
extern "C" __global__ void addresses(int* out) {
    __shared__ int first[5], second[7];
    int here = 0;
    if (threadIdx.x == 0) { first[0] = 1; second[3] = 2; }
    __syncthreads();
    meet();
    unsigned n = rank_count();
    if (threadIdx.x < n) {
        unsigned to = threadIdx.x;
        int* row = out + 16 * (n * block_number() + to);
        unsigned a = near_address(&second[3]), m = peer(a, to);
        unsigned base = near_address(first) & 0xffffff;
        row[0] = m >> 24;
        row[1] = (m & 0xffffff) - base - (near_address(second) - near_address(first));
        row[2] = a >> 24;
        row[3] = m == (to << 24 | (a & 0xffffff));
        unsigned long long gm = far_peer(&second[3], to);
        unsigned long long through;
        asm volatile("cvta.shared::cluster.u64 %0, %1;" : "=l"(through) : "l"((unsigned long long)m));
        row[5] = through == gm;
        unsigned long long back;
        asm volatile("cvta.to.shared::cluster.u64 %0, %1;" : "=l"(back) : "l"(gm));
        row[6] = back == m;
        unsigned r;
        asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(r) : "r"(m));
        row[7] = r;
        asm volatile("getctarank.u64 %0, %1;" : "=r"(r) : "l"(gm));
        row[8] = r;
        asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(r) : "r"(a));
        row[9] = r;
#define IS(i, space, value) { unsigned v; asm volatile( \
        "{ .reg .pred p; isspacep." space " p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(v) : "l"(value)); row[i] = v; }
        IS(10, "shared::cta", gm) IS(11, "shared::cluster", gm) IS(12, "shared", gm)
        IS(13, "global", gm) IS(14, "shared::cluster", (unsigned long long)out)
        IS(15, "shared::cluster", (unsigned long long)&here)
#undef IS
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(m), "r"((to + 1) % n));
        if (r != peer(a, (to + 1) % n)) row[3] |= 2;  // of an address that is mapped already
    }
    meet();
}

extern "C" __global__ void groups(int* out) {
    __shared__ int mine[32];
    cg::cluster_group c = cg::this_cluster();
    mine[threadIdx.x % 32] = 100 * c.block_rank() + threadIdx.x % 32;
    c.sync();
    if (threadIdx.x == 40) {
        int* row = out + 32 * block_number();
        row[0] = c.block_rank(); row[1] = c.thread_rank(); row[2] = c.num_blocks();
        row[3] = c.num_threads(); row[4] = c.dim_blocks().x; row[5] = c.block_index().x;
        row[6] = c.dim_threads().x; row[7] = c.thread_index().x;
        unsigned next = (c.block_rank() + 1) % c.num_blocks();
        int* p = c.map_shared_rank(mine, next);
        row[8] = p[5];
        row[9] = c.query_shared_rank(p);
        row[10] = c.query_shared_rank(mine);
        p[7] = -1 - (int)c.block_rank();
    }
    c.barrier_arrive();
    c.barrier_wait();
    if (threadIdx.x == 40) out[32 * block_number() + 11] = mine[7];
    c.barrier_wait(c.barrier_arrive());
}

// Integer atomics on shared memory of all blocks, by state space and by generic address.
extern "C" __global__ void atomics(int* out) {
    __shared__ unsigned v[16];
    if (threadIdx.x < 16) v[threadIdx.x] = threadIdx.x == 5 ? 0xffffffffu : 0;
    __syncthreads();
    meet();
    unsigned n = rank_count(), id = own_rank() * blockDim.x + threadIdx.x;
    for (unsigned r = 0; r < n; r++) {
        unsigned at = peer(near_address(v), r), old, total = 0;
        asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;" : "=r"(old) : "r"(at), "r"(1) : "memory");
        total += old < n * 64;
        asm volatile("red.shared::cluster.max.u32 [%0], %1;" :: "r"(at + 4), "r"(id) : "memory");
        asm volatile("red.relaxed.cluster.shared::cluster.xor.b32 [%0], %1;" :: "r"(at + 8), "r"(id * 77) : "memory");
        asm volatile("atom.shared::cluster.inc.u32 %0, [%1], %2;" : "=r"(old) : "r"(at + 12), "r"(40) : "memory");
        total += old <= 40;
        asm volatile("red.shared::cluster.add.u32 [%0], %1;" :: "r"(at + 16), "r"(total) : "memory");
        asm volatile("red.shared::cluster.min.u32 [%0], %1;" :: "r"(at + 20), "r"(id + 3) : "memory");
        atomicAdd((unsigned*)far_peer(v, r) + 6, id);
        atomicOr((unsigned*)far_peer(v, r) + 7, 1u << (id % 32));
        asm volatile("red.shared::cluster.add.u64 [%0], %1;" :: "r"(at + 32), "l"(0x100000001ull) : "memory");
        unsigned seen = 0;
        if (id % 37 == 0)  // a lock in the memory of each block
            do {
                asm volatile("atom.acquire.cluster.shared::cluster.cas.b32 %0, [%1], 0, 1;" : "=r"(seen) : "r"(at + 40) : "memory");
                if (!seen) {
                    unsigned x;
                    asm volatile("ld.relaxed.cluster.shared::cluster.u32 %0, [%1];" : "=r"(x) : "r"(at + 44) : "memory");
                    asm volatile("st.relaxed.cluster.shared::cluster.u32 [%0], %1;" :: "r"(at + 44), "r"(x + id) : "memory");
                    asm volatile("atom.release.cluster.shared::cluster.exch.b32 %0, [%1], 0;" : "=r"(x) : "r"(at + 40) : "memory");
                }
            } while (seen);
    }
    meet();
    if (threadIdx.x < 16) out[64 * block_number() + threadIdx.x] = v[threadIdx.x];
}

// f32 atomics: denormals, by one thread, on the next block.
extern "C" __global__ void floats(int* out) {
    __shared__ float v[4];
    if (threadIdx.x == 0) { v[0] = __int_as_float(3); v[1] = 1.5f; v[2] = __int_as_float(0x00800001); v[3] = 0; }
    meet();
    if (threadIdx.x == 0) {
        unsigned at = peer(near_address(v), (own_rank() + 1) % rank_count());
        asm volatile("red.shared::cluster.add.f32 [%0], %1;" :: "r"(at), "f"(__int_as_float(5)) : "memory");
        asm volatile("red.shared::cluster.add.f32 [%0], %1;" :: "r"(at + 4), "f"(0.1f) : "memory");
        float* p = (float*)far_peer(v, (own_rank() + 1) % rank_count());
        asm volatile("red.add.f32 [%0], %1;" :: "l"(p + 2), "f"(-__int_as_float(0x00800000)) : "memory");
        asm volatile("red.add.f32 [%0], %1;" :: "l"(p + 3), "f"(__int_as_float(9)) : "memory");
    }
    meet();
    if (threadIdx.x < 4) out[16 * block_number() + threadIdx.x] = __float_as_int(v[threadIdx.x]);
}

// Loads and stores of all widths, to the next block and from the one before.
extern "C" __global__ void widths(int* out) {
    __shared__ alignas(16) unsigned v[64];
    v[threadIdx.x] = 0;
    meet();
    unsigned n = rank_count(), next = (own_rank() + 1) % n, at = peer(near_address(v), next), t = threadIdx.x;
    unsigned x = 0x01010101u * (1 + own_rank());
    if (t < 4) asm volatile("st.shared::cluster.u8 [%0], %1;" :: "r"(at + t), "r"(x + t) : "memory");
    if (t < 4) asm volatile("st.shared::cluster.u16 [%0], %1;" :: "r"(at + 8 + 2 * t), "h"((short)(x + t)) : "memory");
    if (t < 4) asm volatile("st.shared::cluster.u64 [%0], %1;" :: "r"(at + 16 + 8 * t), "l"((unsigned long long)x << 16 | t) : "memory");
    if (t < 2) asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" :: "r"(at + 48 + 16 * t), "r"(x), "r"(t), "r"(x + 1), "r"(~t) : "memory");
    if (t >= 20) asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(at + 4 * (83 - t)), "r"(x * t) : "memory");
    meet();
    int* row = out + 64 * block_number();
    unsigned from = peer(near_address(v), (own_rank() + n - 1) % n), a, b, c, d;
    if (t < 16) {
        asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from + 16 * (15 - t)) : "memory");
        row[4 * (15 - t)] = a; row[4 * (15 - t) + 1] = b; row[4 * (15 - t) + 2] = c; row[4 * (15 - t) + 3] = d;
    }
    meet();
}

// Generic addresses: each lane goes to a block of its own.
extern "C" __global__ void generic(int* out) {
    __shared__ int v[64];
    v[threadIdx.x] = 1000 * own_rank() + threadIdx.x;
    meet();
    unsigned n = rank_count(), to = (own_rank() + threadIdx.x) % n;
    const int* p = (const int*)far_peer(v, to);
    out[64 * block_number() + threadIdx.x] = p[63 - threadIdx.x];
    meet();
}

// Work between arrive and wait; the last phases without release.
extern "C" __global__ void early(int* out) {
    __shared__ int v[2][64];
    int sum = 0;
    unsigned n = rank_count();
    for (int i = 0; i < 6; i++) {
        v[i & 1][threadIdx.x] = (own_rank() + 1) * (i + 1) + threadIdx.x;
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
        sum = sum * 3 + i;
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        for (unsigned r = 0; r < n; r++) sum += ((int*)far_peer(v[i & 1], r))[(threadIdx.x + r) % 64];
    }
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    out[64 * block_number() + threadIdx.x] = sum;
}

// Threads that have exited count as arrived; some have arrived before.
extern "C" __global__ void exits(int* out) {
    __shared__ int v[64];
    v[threadIdx.x] = 7 * own_rank() + threadIdx.x;
    unsigned n = rank_count();
    if (threadIdx.x >= 48) return;
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    if (threadIdx.x >= 40) return;
    asm volatile("barrier.cluster.wait;" ::: "memory");
    int sum = 0;
    for (unsigned r = 0; r < n; r++) sum += ((int*)far_peer(v, r))[threadIdx.x];
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    asm volatile("barrier.cluster.wait;" ::: "memory");
    out[64 * block_number() + threadIdx.x] = sum;
}

// A token goes around the ring twice, by stores and remote arrivals at mbarriers.
extern "C" __global__ void ring(int* out) {
    __shared__ unsigned long long bar;
    __shared__ int token;
    init(&bar, 1);
    unsigned n = rank_count(), next = (own_rank() + 1) % n;
    if (threadIdx.x == 0) {
        for (int lap = 0; lap < 2; lap++) {
            int value = 5;
            if (own_rank() != 0 || lap) { await(&bar, own_rank() ? lap : lap - 1); value = token; }
            out[64 * block_number() + lap] = value;
            asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(peer(near_address(&token), next)), "r"(3 * value + (int)own_rank()) : "memory");
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(peer(near_address(&bar), next)) : "memory");
        }
        if (own_rank() == 0) { await(&bar, 1); out[64 * block_number() + 2] = token; }
    }
    __syncthreads();
    meet();
}

extern "C" __global__ void async_stores(int* out) {
    __shared__ unsigned long long bar;
    __shared__ alignas(16) int v[64];
    v[threadIdx.x] = -1;
    init(&bar, 1);
    if (threadIdx.x == 0) expect(&bar, 32 * 4 + 4 * 16 + 2 * 8);
    unsigned to = (own_rank() + 1) % rank_count(), b = peer(near_address(&bar), to), t = threadIdx.x;
    unsigned at = peer(near_address(v), to);
    if (t < 32) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" :: "r"(at + 4 * t), "r"(100 * own_rank() + t), "r"(b) : "memory");
    else if (t < 36) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.s32 [%0], {%1, %2, %3, %4}, [%5];" :: "r"(at + 128 + 16 * (t - 32)), "r"(t), "r"(own_rank()), "r"(t * t), "r"(-t), "r"(b) : "memory");
    else if (t < 38) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" :: "r"(at + 192 + 8 * (t - 36)), "l"(0x123456789abcull * t), "r"(b) : "memory");
    await(&bar, 0);
    out[64 * block_number() + t] = v[t];
    meet();
}

extern "C" __global__ void async_reductions(int* out) {
    __shared__ unsigned long long bar;
    __shared__ alignas(16) unsigned v[16];
    if (threadIdx.x < 16) v[threadIdx.x] = threadIdx.x == 3 ? 0xffffffffu : 10;
    init(&bar, 1);
    unsigned n = rank_count();
    if (threadIdx.x == 0) expect(&bar, n * 64 * 4 * 3 + n * 8);
    for (unsigned r = 0; r < n; r++) {
        unsigned b = peer(near_address(&bar), r), at = peer(near_address(v), r), id = own_rank() * 64 + threadIdx.x;
#define RED(op, type, where) asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes." op "." type " [%0], %1, [%2];" :: "r"(at + where), "r"(id), "r"(b) : "memory")
        RED("add", "u32", 0);
        RED("max", "u32", 4);
        RED("and", "b32", 12);
#undef RED
        if (threadIdx.x == 9) asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%0], %1, [%2];" :: "r"(at + 32), "l"(0x300000005ull), "r"(b) : "memory");
    }
    await(&bar, 0);
    if (threadIdx.x < 16) out[64 * block_number() + threadIdx.x] = v[threadIdx.x];
    meet();
}

// Bulk copies of shared memory to all blocks.
extern "C" __global__ void copies(int* out) {
    __shared__ unsigned long long bar;
    __shared__ alignas(128) int from[16], to[16 * 16];
    if (threadIdx.x < 16) from[threadIdx.x] = 50 * own_rank() + threadIdx.x;
    for (int i = threadIdx.x; i < 256; i += 64) to[i] = -2;
    asm volatile("fence.proxy.async;" ::: "memory");
    init(&bar, 1);
    unsigned n = rank_count();
    if (threadIdx.x == 0) {
        expect(&bar, 64 * n);
        for (unsigned r = 0; r < n; r++)
            asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 64, [%2];"
                         :: "r"(peer(near_address(to + 16 * own_rank()), r)), "r"(near_address(from)), "r"(peer(near_address(&bar), r)) : "memory");
    }
    await(&bar, 0);
    int sum = 0;
    for (int i = 0; i < 4; i++) sum = sum * 5 + to[64 * i + threadIdx.x];
    out[64 * block_number() + threadIdx.x] = sum;
    meet();
}

extern "C" __global__ void copied_reductions(int* out) {
    __shared__ unsigned long long bar;
    __shared__ alignas(128) int from[16], to[16];
    if (threadIdx.x < 16) { from[threadIdx.x] = 50 * own_rank() + threadIdx.x; to[threadIdx.x] = 3; }
    asm volatile("fence.proxy.async;" ::: "memory");
    init(&bar, 1);
    unsigned n = rank_count();
    if (threadIdx.x == 0) {
        expect(&bar, 64 * n);
        for (unsigned r = 0; r < n; r++)
            asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.s32 [%0], [%1], 64, [%2];"
                         :: "r"(peer(near_address(to), r)), "r"(near_address(from)), "r"(peer(near_address(&bar), r)) : "memory");
    }
    await(&bar, 0);
    if (threadIdx.x < 16) out[64 * block_number() + threadIdx.x] = to[threadIdx.x];
    meet();
}

__device__ int given[64] = {11, 22, 33, 44, 55, 66, 77, 88, 99, -1, 0, 0, 0, 5, 0, 0, 0, 0, 1 << 30};

// Rank 0 sends `given` to the blocks of a mask.
extern "C" __global__ void multicast(int* out, int mask) {
    __shared__ unsigned long long bar;
    __shared__ alignas(128) int tile[64];
    tile[threadIdx.x] = -3;
    asm volatile("fence.proxy.async;" ::: "memory");
    init(&bar, 1);
    bool mine = mask >> own_rank() & 1;
    if (threadIdx.x == 0 && mine) expect(&bar, 256);
    meet();
    if (threadIdx.x == 0 && own_rank() == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;"
                     :: "r"(near_address(tile)), "l"(given), "r"(near_address(&bar)), "h"((short)mask) : "memory");
    if (mine) await(&bar, 0);
    out[64 * block_number() + threadIdx.x] = tile[threadIdx.x];
    meet();
}

// `__cluster_dims__` of the source, in a launch without a cluster.
extern "C" __global__ void __cluster_dims__(2, 1, 3) compiled(int* out) {
    if (threadIdx.x) return;
    int* row = out + 32 * block_number();
    SREG(0, "clusterid.x") SREG(1, "clusterid.y") SREG(2, "clusterid.z")
    SREG(3, "cluster_ctarank") SREG(4, "cluster_nctarank")
}
