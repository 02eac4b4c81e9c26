// Tiles that tensor copies write: their layouts, the mbarriers that announce them, and clusters.
// The notation is explained in tests/support/planted.py.
typedef unsigned long long u64;
typedef unsigned short half;  // the bits of one
struct alignas(64) CUtensorMap { u64 opaque[16]; };
__device__ unsigned at(const void* s) { return (unsigned)__cvta_generic_to_shared(s); }
enum Swizzle { NONE, BY_128, BY_64, BY_32 };  // as a descriptor numbers them
// A matrix whose groups of 8 rows are `stride` bytes apart, and its pieces of 16 bytes `leading`.
__device__ u64 tile(const void* s, u64 swizzle, u64 stride, u64 leading = 16) {
    return (at(s) & 0x3FFFF) >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | swizzle << 62;
}
// Macros, so that the instruction has the line of the kernel.
#define WGMMA(c, a, b) WGMMA_OF(c, a, b, 0)
#define WGMMA_TURNED(c, a, b) WGMMA_OF(c, a, b, 1)  // B has its columns in rows of memory
#define WGMMA_OF(c, a, b, turned)                                                               \
    asm volatile(                                                                               \
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, " \
        #turned ";"                                                                             \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "l"(a), "l"(b) : "memory")
#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define FINISH()                                                                                \
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory")
#define RESULT(y, c)                                                                            \
    asm volatile("" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) :: "memory");              \
    for (int i = 0; i < 4; ++i) y[threadIdx.x % 128 * 4 + i] = c[i]
#define PROXY() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define LOAD(to, map, x, y, bar)                                                                \
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes " \
                 "[%0], [%1, {%2, %3}], [%4];"                                                  \
                 :: "r"(at(to)), "l"(&map), "r"(x), "r"(y), "r"(at(bar)) : "memory")
#define MULTICAST(to, map, x, y, bar, blocks)                                                   \
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"  \
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"                          \
                 :: "r"(at(to)), "l"(&map), "r"(x), "r"(y), "r"(at(bar)), "h"((short)(blocks))  \
                 : "memory")
#define CLUSTER_SYNC()                                                                          \
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" \
                 ::: "memory")
#define MAP const __grid_constant__ CUtensorMap
__device__ void init(u64* bar, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");
}
__device__ void expect(u64* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes)
                 : "memory");
}
__device__ void arrive(u64* bar) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at(bar)) : "memory");
}
__device__ void arrive_at(u64* bar, int rank) {
    asm volatile("{ .reg .b32 a; mapa.shared::cluster.u32 a, %0, %1;"
                 " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [a]; }"
                 ::"r"(at(bar)), "r"(rank) : "memory");
}
__device__ void wait(u64* bar, int parity) {
    asm volatile("{ .reg .pred p; AGAIN%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;"
                 " @!p bra AGAIN%=; }" ::"r"(at(bar)), "r"(parity) : "memory");
}
__device__ int rank() {
    int r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

// case: descriptor_of_64_for_a_tile_of_128   kind: wrong tile   grid: 1   block: 128   args: map:f16[64x64]:64x64:128 f32[512]
__global__ void k(MAP a, float* y) {
    __shared__ alignas(1024) half s[64 * 64];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, sizeof s);
        LOAD(s, a, 0, 0, &full);
    }
    wait(&full, 0);
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s, BY_64, 512), tile(s, BY_128, 1024));  //! //-
    //+ WGMMA(c, tile(s, BY_128, 1024), tile(s, BY_128, 1024));
    FINISH();
    RESULT(y, c);
}

// case: map_without_swizzle   kind: wrong tile   grid: 1   block: 128   args: map:f16[64x64]:64x64:0 map:f16[64x64]:64x64:128 f32[512]
__global__ void k(MAP plain, MAP swizzled, float* y) {
    __shared__ alignas(1024) half s[64 * 64];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, sizeof s);
        LOAD(s, plain, 0, 0, &full);  //-
        //+ LOAD(s, swizzled, 0, 0, &full);
    }
    wait(&full, 0);
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s, BY_128, 1024), tile(s, BY_128, 1024));  //!
    FINISH();
    RESULT(y, c);
}

// case: map_of_64_for_a_descriptor_of_128   kind: wrong tile   grid: 1   block: 128   args: map:f16[128x32]:128x32:64 map:f16[64x64]:64x64:128 f32[512]
__global__ void k(MAP narrow, MAP wide, float* y) {
    __shared__ alignas(1024) half s[64 * 64];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, sizeof s);
        LOAD(s, narrow, 0, 0, &full);  //-
        //+ LOAD(s, wide, 0, 0, &full);
    }
    wait(&full, 0);
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s, BY_128, 1024), tile(s, BY_128, 1024));  //!
    FINISH();
    RESULT(y, c);
}

// case: descriptor_without_swizzle   kind: wrong tile   grid: 1   block: 128   args: map:f16[64x16]:64x16:32 f32[512]
__global__ void k(MAP a, float* y) {
    __shared__ alignas(1024) half s[64 * 16];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, sizeof s);
        LOAD(s, a, 0, 0, &full);
    }
    wait(&full, 0);
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s, BY_32, 256), tile(s, NONE, 128, 1024));  //! //-
    //+ WGMMA(c, tile(s, BY_32, 256), tile(s, BY_32, 256));
    FINISH();
    RESULT(y, c);
}

// case: columns_in_another_swizzle   kind: wrong tile   grid: 1   block: 128   args: map:f16[64x64]:64x64:128 map:f16[16x64]:16x64:128 f32[512]
__global__ void k(MAP a, MAP b, float* y) {
    __shared__ alignas(1024) half s[64 * 64], t[16 * 64];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, sizeof s + sizeof t);
        LOAD(s, a, 0, 0, &full);
        LOAD(t, b, 0, 0, &full);
    }
    wait(&full, 0);
    float c[4] = {};
    FENCE();
    WGMMA_TURNED(c, tile(s, BY_128, 1024), tile(t, BY_32, 256));  //! //-
    //+ WGMMA_TURNED(c, tile(s, BY_128, 1024), tile(t, BY_128, 1024));
    FINISH();
    RESULT(y, c);
}

// case: stride_into_the_next_stage   kind: wrong tile   grid: 1   block: 128   args: map:f16[64x128]:64x64:128 f32[512]
__global__ void k(MAP a, float* y) {
    __shared__ alignas(1024) half s[2][64 * 64];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, sizeof s);
        for (int i = 0; i < 2; ++i) LOAD(s[i], a, 64 * i, 0, &full);
    }
    wait(&full, 0);
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s[0], BY_128, 2048), tile(s[0], BY_128, 1024));  //! //-
    //+ WGMMA(c, tile(s[0], BY_128, 1024), tile(s[0], BY_128, 1024));
    FINISH();
    RESULT(y, c);
}

// case: stride_into_nothing   kind: wrong tile   grid: 1   block: 128   args: map:f16[64x64]:64x64:128 f32[512]
__global__ void k(MAP a, float* y) {
    __shared__ alignas(1024) half s[3 * 64 * 64];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, 64 * 64 * 2);
        LOAD(s, a, 0, 0, &full);
    }
    wait(&full, 0);
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s, BY_128, 3072), tile(s, BY_128, 1024));  //! //-
    //+ WGMMA(c, tile(s, BY_128, 1024), tile(s, BY_128, 1024));
    FINISH();
    RESULT(y, c);
}

// case: leading_offset_into_nothing   kind: wrong tile   grid: 1   block: 128   args: map:f16[64x16]:64x8:0 f32[512]
__global__ void k(MAP a, float* y) {
    __shared__ alignas(1024) half s[4][64 * 8];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, 2 * sizeof s[0]);
        for (int i = 0; i < 2; ++i) LOAD(s[i], a, 8 * i, 0, &full);
    }
    wait(&full, 0);
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s, NONE, 128, 2048), tile(s, NONE, 128, 1024));  //! //-
    //+ WGMMA(c, tile(s, NONE, 128, 1024), tile(s, NONE, 128, 1024));
    FINISH();
    RESULT(y, c);
}

// case: ldmatrix_without_swizzle   kind: wrong tile   grid: 1   block: 32   args: map:f16[32x64]:32x64:128 u32[128]=0
__global__ void k(MAP a, unsigned* y) {
    __shared__ alignas(1024) half s[32 * 64];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, sizeof s);
        LOAD(s, a, 0, 0, &full);
    }
    wait(&full, 0);
    unsigned r[4], from = at(s) + threadIdx.x * 128 + 3 * 16;  //-
    //+ unsigned r[4], from = at(s) + threadIdx.x * 128 + (3 ^ threadIdx.x % 8) * 16;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"  //!
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = r[i];
}

// case: written_again_by_hand   kind: wrong tile   grid: 1   block: 128   args: map:f16[64x64]:64x64:128 u16[4096] f32[512]
__global__ void k(MAP a, const half* x, float* y) {
    __shared__ alignas(1024) half s[64 * 64];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, sizeof s);
        LOAD(s, a, 0, 0, &full);
    }
    wait(&full, 0);
    __syncthreads();
    //+ for (int i = threadIdx.x; i < 64 * 64; i += 128) s[i] = x[i];
    //+ PROXY();
    //+ __syncthreads();
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s, NONE, 128, 2048), tile(s, NONE, 128, 2048));  //!
    FINISH();
    RESULT(y, c);
}

// case: product_after_the_wrong_full   kind: missing wait   grid: 1   block: 128   args: map:f16[64x128]:64x64:128 f32[512]
__global__ void k(MAP a, float* y) {
    __shared__ alignas(1024) half s[2][64 * 64];
    __shared__ u64 full[2];
    if (threadIdx.x == 0) init(&full[0], 1), init(&full[1], 1);
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; ++i) {
            expect(&full[i], sizeof s[i]);
            LOAD(s[i], a, 64 * i, 0, &full[i]);
        }
    float c[4] = {};
    for (int i = 0; i < 2; ++i) {
        wait(&full[0], 0);  //-
        //+ wait(&full[i], 0);
        FENCE();
        WGMMA(c, tile(s[i], BY_128, 1024), tile(s[i], BY_128, 1024));  //!
        FINISH();
    }
    RESULT(y, c);
    wait(&full[1], 0);
}

// case: refilled_after_the_wrong_empty   kind: missing wait   grid: 1   block: 160   args: map:f16[64x256]:64x64:128 f32[512]
__global__ void k(MAP a, float* y) {
    __shared__ alignas(1024) half s[2][64 * 64];
    __shared__ u64 full[2], empty[2];
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; ++i) init(&full[i], 1), init(&empty[i], 128);
    __syncthreads();
    if (threadIdx.x == 128)
        for (int i = 0; i < 4; ++i) {
            int stage = i % 2;
            wait(&empty[0], i / 2 ^ 1);  //-
            //+ wait(&empty[stage], i / 2 ^ 1);
            expect(&full[stage], sizeof s[stage]);
            LOAD(s[stage], a, 64 * i, 0, &full[stage]);  //!
        }
    if (threadIdx.x >= 128) return;
    float c[4] = {};
    for (int i = 0; i < 4; ++i) {
        int stage = i % 2;
        wait(&full[stage], i / 2);
        FENCE();
        WGMMA(c, tile(s[stage], BY_128, 1024), tile(s[stage], BY_128, 1024));
        FINISH();
        arrive(&empty[stage]);
    }
    RESULT(y, c);
}

// case: multicast_read_before_the_wait   kind: missing wait   grid: 2   block: 64   cluster: 2   args: map:u32[16x32]:16x32:0 u32[1024]=0
__global__ void k(MAP a, unsigned* y) {
    __shared__ alignas(1024) unsigned s[16 * 32];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1), expect(&full, sizeof s);
    CLUSTER_SYNC();
    if (rank() == 0 && threadIdx.x == 0) MULTICAST(s, a, 0, 0, &full, 3);
    CLUSTER_SYNC();
    if (rank() == 0) wait(&full, 0);  //-
    //+ wait(&full, 0);
    for (int i = threadIdx.x; i < 512; i += 64) y[blockIdx.x * 512 + i] = s[i];  //!
    if (rank() != 0) wait(&full, 0);  //-
    CLUSTER_SYNC();
}

// case: multicast_over_a_peer_that_reads   kind: missing wait   grid: 2   block: 64   cluster: 2   args: map:u32[48x32]:16x32:0 u32[1024]=0
__global__ void k(MAP a, unsigned* y) {
    __shared__ alignas(1024) unsigned s[16 * 32];
    __shared__ u64 full, empty;
    if (threadIdx.x == 0) init(&full, 1), init(&empty, 64), expect(&full, sizeof s);
    CLUSTER_SYNC();
    for (int i = 0; i < 3; ++i) {
        if (threadIdx.x == 0 && rank() == 0) {
            wait(&empty, i & 1 ^ 1);
            MULTICAST(s, a, 0, 16 * i, &full, 3);  //!
        } else if (threadIdx.x >= 32) {
            wait(&full, i & 1);
            if (threadIdx.x == 32 && i < 2) expect(&full, sizeof s);
            __syncwarp();
            if (rank() == 1) arrive_at(&empty, 0);  //-
            for (int j = threadIdx.x - 32; j < 512; j += 32) y[blockIdx.x * 512 + j] += s[j];
            if (rank() == 0) arrive_at(&empty, 0);  //-
            //+ arrive_at(&empty, 0);
        }
    }
    CLUSTER_SYNC();
}

// case: product_in_a_cluster_without_proxy_fence   kind: missing fence   grid: 2   block: 128   cluster: 2   args: u16[1024]=1 f32[1024]
__global__ void k(const half* x, float* y) {
    __shared__ alignas(1024) half s[64 * 16];
    for (int i = threadIdx.x; i < 1024; i += 128) s[i] = x[i];
    //+ PROXY();
    CLUSTER_SYNC();
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s, NONE, 128, 1024), tile(s, NONE, 128, 1024));  //!
    FINISH();
    RESULT((y + blockIdx.x * 512), c);
    CLUSTER_SYNC();
}

// case: a_peer_writes_the_tile   kind: data race   grid: 2   block: 128   cluster: 2   args: u16[1024]=1 f32[1024]
__global__ void __cluster_dims__(2) k(const half* x, float* y) {
    __shared__ alignas(1024) half s[64 * 16];
    unsigned far;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(at(s)), "r"(rank() ^ 1));
    CLUSTER_SYNC();
    for (int i = threadIdx.x; i < 1024; i += 128)
        asm volatile("st.shared::cluster.u16 [%0], %1;" :: "r"(far + 2 * i), "h"(x[i]) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();  //-
    //+ CLUSTER_SYNC();
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s, NONE, 128, 1024), tile(s, NONE, 128, 1024));  //!
    FINISH();
    RESULT((y + blockIdx.x * 512), c);
    CLUSTER_SYNC();
}

// case: threads_race_beside_a_copy   kind: data race   grid: 1   block: 64   args: map:u32[2x32]:2x32:0 u32[64]=0
__global__ void k(MAP a, unsigned* y) {
    __shared__ alignas(1024) unsigned s[64], t[64];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, sizeof s);
        LOAD(s, a, 0, 0, &full);
    }
    wait(&full, 0);
    t[threadIdx.x] = s[threadIdx.x] + 1;
    //+ __syncthreads();
    y[threadIdx.x] = t[63 - threadIdx.x];  //!
}

// case: read_behind_the_box   kind: uninitialised   grid: 1   block: 64   args: map:u32[1x32]:1x32:0 u32[64]=0
__global__ void k(MAP a, unsigned* y) {
    __shared__ alignas(1024) unsigned s[64];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, 128);
        LOAD(s, a, 0, 0, &full);
    }
    wait(&full, 0);
    y[threadIdx.x] = s[threadIdx.x];  //! //-
    //+ y[threadIdx.x] = s[threadIdx.x % 32];
}
