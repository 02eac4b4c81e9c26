// Products by warpgroups (wgmma) and the asynchronous proxy. The notation is explained in
// tests/support/planted.py.
typedef unsigned long long u64;
typedef unsigned short half;  // the bits of one
__device__ unsigned at(const void* s) { return (unsigned)__cvta_generic_to_shared(s); }
// A tile of 64 x 16 elements, as 8 x 2 cores of 128 bytes.
__device__ u64 tile(const void* s) { return at(s) >> 4 | 64ull << 16 | 8ull << 32; }
// Macros, so that the instruction has the line of the kernel.
#define WGMMA(c, a, b)                                                                        \
    asm volatile(                                                                             \
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;" \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "l"(a), "l"(b) : "memory")
#define WGMMA_LEFT(c, a, b)                                                                   \
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "                         \
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, 1, 0;"                              \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b) : "memory")
// Compilers move nothing across it: a multiplication could otherwise end up behind the fence.
#define KEEP(c) asm volatile("" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) :: "memory")
#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned " #n ";" ::: "memory")
#define PROXY() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define COPY(to, from, bytes) \
    asm volatile("cp.async.ca.shared.global [%0], [%1], " #bytes ";" :: "r"(at(to)), "l"(from) : "memory")
#define COPIES_WAIT() asm volatile("cp.async.wait_all;" ::: "memory")
// Bulk copies from and to shared memory.
#define STORE(to, from, bytes)                                                  \
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"   \
                 :: "l"(to), "r"(at(from)), "r"(bytes) : "memory")
#define STORES_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define STORES_READ(n) asm volatile("cp.async.bulk.wait_group.read " #n ";" ::: "memory")
#define LOAD(to, from, bytes, bar)                                                               \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "             \
                 "[%0], [%1], %2, [%3];"                                                         \
                 :: "r"(at(to)), "l"(from), "r"(bytes), "r"(at(bar)) : "memory")
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
__device__ void wait(u64* bar, int parity) {
    asm volatile("{ .reg .pred p; AGAIN%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;"
                 " @!p bra AGAIN%=; }" ::"r"(at(bar)), "r"(parity) : "memory");
}

// case: sums_before_wait   kind: missing wait   grid: 1   block: 128   args: u16[1024]=1 f32[512]
__global__ void k(const half* x, float* y) {
    __shared__ __align__(128) half s[1024];
    for (int i = threadIdx.x; i < 1024; i += 128) s[i] = x[i];
    PROXY();
    __syncthreads();
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s), tile(s));
    COMMIT();
    WAIT(1);  //-
    //+ WAIT(0);
    KEEP(c);
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = c[i];  //!
}

// case: sums_without_commit   kind: missing wait   grid: 1   block: 128   args: u16[1024]=1 f32[512]
__global__ void k(const half* x, float* y) {
    __shared__ __align__(128) half s[1024];
    for (int i = threadIdx.x; i < 1024; i += 128) s[i] = x[i];
    PROXY();
    __syncthreads();
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s), tile(s));
    //+ COMMIT();
    WAIT(0);
    KEEP(c);
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = c[i];  //!
}

// case: sums_scaled_before_wait   kind: missing wait   grid: 1   block: 128   args: u16[1024]=1 f32[512]
__global__ void k(const half* x, float* y) {
    __shared__ __align__(128) half s[1024];
    for (int i = threadIdx.x; i < 1024; i += 128) s[i] = x[i];
    PROXY();
    __syncthreads();
    float c[4] = {};
#pragma unroll 1
    for (int step = 0; step < 3; ++step) {
        for (int i = 0; i < 4; ++i) c[i] *= 0.5f;  //!
        KEEP(c);
        FENCE();
        WGMMA(c, tile(s), tile(s));
        COMMIT();
        //+ WAIT(0);
        //+ KEEP(c);
    }
    WAIT(0);
    KEEP(c);
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = c[i];
}

// case: left_changes_before_wait   kind: missing wait   grid: 1   block: 128   args: u32[2048] u16[1024]=1 f32[512]
__global__ void k(const unsigned* x, const half* b, float* y) {
    __shared__ __align__(128) half s[1024];
    for (int i = threadIdx.x; i < 1024; i += 128) s[i] = b[i];
    PROXY();
    __syncthreads();
    float c[4] = {};
    unsigned a[4];
#pragma unroll 1
    for (int step = 0; step < 4; ++step) {
        for (int i = 0; i < 4; ++i) a[i] = x[step * 512 + i * 128 + threadIdx.x];  //!
        FENCE();
        WGMMA_LEFT(c, a, tile(s));
        COMMIT();
        //+ WAIT(0);
    }
    WAIT(0);
    KEEP(c);
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = c[i];
}

// case: no_fence_of_registers   kind: missing fence   grid: 1   block: 128   args: u16[1024]=1 f32[512]
__global__ void k(const half* x, float* y) {
    __shared__ __align__(128) half s[1024];
    for (int i = threadIdx.x; i < 1024; i += 128) s[i] = x[i];
    PROXY();
    __syncthreads();
    float c[4] = {};
    //+ FENCE();
    WGMMA(c, tile(s), tile(s));  //!
    COMMIT();
    WAIT(0);
    KEEP(c);
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = c[i];
}

// case: no_fence_after_scaling   kind: missing fence   grid: 1   block: 128   args: u16[1024]=1 f32[512]
__global__ void k(const half* x, float* y) {
    __shared__ __align__(128) half s[1024];
    for (int i = threadIdx.x; i < 1024; i += 128) s[i] = x[i];
    PROXY();
    __syncthreads();
    float c[4] = {};
    FENCE();
#pragma unroll 1
    for (int step = 0; step < 3; ++step) {
        for (int i = 0; i < 4; ++i) c[i] *= 0.5f;
        KEEP(c);
        //+ FENCE();
        WGMMA(c, tile(s), tile(s));  //!
        COMMIT();
        WAIT(0);
        KEEP(c);
    }
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = c[i];
}

// case: product_without_proxy_fence   kind: missing fence   grid: 1   block: 128   args: u16[1024]=1 f32[512]
__global__ void k(const half* x, float* y) {
    __shared__ __align__(128) half s[1024];
    for (int i = threadIdx.x; i < 1024; i += 128) s[i] = x[i];
    //+ PROXY();
    __syncthreads();
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s), tile(s));  //!
    COMMIT();
    WAIT(0);
    KEEP(c);
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = c[i];
}

// case: proxy_fence_by_the_issuer   kind: missing fence   grid: 1   block: 256   args: u16[1024]=1 f32[512]
__global__ void k(const half* x, float* y) {
    __shared__ __align__(128) half s[1024];
    if (threadIdx.x < 128) PROXY();  //-
    if (threadIdx.x >= 128)
        for (int i = threadIdx.x; i < 1152; i += 128) s[i - 128] = x[i - 128];
    __syncthreads();
    if (threadIdx.x >= 128) return;
    //+ PROXY();
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s), tile(s));  //!
    COMMIT();
    WAIT(0);
    KEEP(c);
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = c[i];
}

// case: proxy_fence_before_the_copies_land   kind: missing fence   grid: 1   block: 128   args: u16[1024]=1 f32[512]
__global__ void k(const half* x, float* y) {
    __shared__ __align__(128) half s[1024];
    COPY(s + threadIdx.x * 8, x + threadIdx.x * 8, 16);
    PROXY();  //-
    COPIES_WAIT();
    //+ PROXY();
    __syncthreads();
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s), tile(s));  //!
    COMMIT();
    WAIT(0);
    KEEP(c);
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = c[i];
}

// case: product_before_the_copies_land   kind: missing wait   grid: 1   block: 128   args: u16[1024]=1 f32[512]
__global__ void k(const half* x, float* y) {
    __shared__ __align__(128) half s[1024];
    COPY(s + threadIdx.x * 8, x + threadIdx.x * 8, 16);
    //+ COPIES_WAIT();
    PROXY();
    __syncthreads();
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s), tile(s));  //!
    COMMIT();
    WAIT(0);
    KEEP(c);
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = c[i];
}

// case: product_without_barrier   kind: data race   grid: 1   block: 256   args: u16[1024]=1 f32[512]
__global__ void k(const half* x, float* y) {
    __shared__ __align__(128) half s[1024];
    if (threadIdx.x < 128) {
        for (int i = threadIdx.x; i < 1024; i += 128) s[i] = x[i];
        PROXY();
    }
    //+ __syncthreads();
    if (threadIdx.x < 128) return;
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s), tile(s));  //!
    COMMIT();
    WAIT(0);
    KEEP(c);
    for (int i = 0; i < 4; ++i) y[(threadIdx.x - 128) * 4 + i] = c[i];
}

// case: store_without_proxy_fence   kind: missing fence   grid: 1   block: 64   args: u32[64] u32[64]=0
__global__ void k(const unsigned* x, unsigned* y) {
    __shared__ __align__(128) unsigned s[64];
    s[threadIdx.x] = x[threadIdx.x];
    //+ PROXY();
    __syncthreads();
    if (threadIdx.x == 0) {
        STORE(y, s, 256);  //!
        STORES_COMMIT();
        STORES_READ(0);
    }
}

// case: tile_overwritten_before_wait   kind: missing wait   grid: 1   block: 128   args: u16[2048]=1 f32[512]
__global__ void k(const half* x, float* y) {
    __shared__ __align__(128) half s[1024];
    float c[4] = {};
    for (int step = 0; step < 2; ++step) {
        for (int i = threadIdx.x; i < 1024; i += 128) s[i] = x[step * 1024 + i];  //!
        PROXY();
        __syncthreads();
        FENCE();
        WGMMA(c, tile(s), tile(s));
        COMMIT();
        //+ WAIT(0);
        __syncthreads();
    }
    WAIT(0);
    KEEP(c);
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = c[i];
}

// case: stage_released_before_wait   kind: missing wait   grid: 1   block: 256   args: u16[3072]=1 f32[512]
__global__ void k(const half* x, float* y) {
    __shared__ __align__(128) half s[1024];
    __shared__ u64 full, empty;
    if (threadIdx.x == 0) init(&full, 128), init(&empty, 128);
    __syncthreads();
    if (threadIdx.x >= 128) {
        for (int step = 0; step < 3; ++step) {
            wait(&empty, (step & 1) ^ 1);
            for (int i = threadIdx.x - 128; i < 1024; i += 128) s[i] = x[step * 1024 + i];  //!
            PROXY();
            arrive(&full);
        }
        return;
    }
    float c[4] = {};
    for (int step = 0; step < 3; ++step) {
        wait(&full, step & 1);
        FENCE();
        WGMMA(c, tile(s), tile(s));
        COMMIT();
        arrive(&empty);  //-
        WAIT(0);
        //+ arrive(&empty);
        KEEP(c);
    }
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = c[i];
}

// case: source_of_a_store_overwritten   kind: missing wait   grid: 1   block: 64   args: u32[128] u32[128]=0
__global__ void k(const unsigned* x, unsigned* y) {
    __shared__ __align__(128) unsigned s[64];
    for (int step = 0; step < 2; ++step) {
        s[threadIdx.x] = x[step * 64 + threadIdx.x];  //!
        PROXY();
        __syncthreads();
        if (threadIdx.x == 0) {
            STORE(y + step * 64, s, 256);
            STORES_COMMIT();
            STORES_READ(1);  //-
            //+ STORES_READ(0);
        }
        __syncthreads();
    }
}

// case: read_before_the_load   kind: missing wait   grid: 1   block: 64   args: u32[64] u32[64]=0
__global__ void k(const unsigned* x, unsigned* y) {
    __shared__ __align__(128) unsigned s[64];
    __shared__ u64 bar;
    if (threadIdx.x == 0) init(&bar, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&bar, 256);
        LOAD(s, x, 256, &bar);
    }
    //+ wait(&bar, 0);
    y[threadIdx.x] = s[threadIdx.x];  //!
    wait(&bar, 0);  //-
}

// case: product_before_the_load   kind: missing wait   grid: 1   block: 128   args: u16[1024]=1 f32[512]
__global__ void k(const half* x, float* y) {
    __shared__ __align__(128) half s[1024];
    __shared__ u64 bar;
    if (threadIdx.x == 0) init(&bar, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&bar, 2048);
        LOAD(s, x, 2048, &bar);
    }
    //+ wait(&bar, 0);
    float c[4] = {};
    FENCE();
    WGMMA(c, tile(s), tile(s));  //!
    COMMIT();
    WAIT(0);
    KEEP(c);
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = c[i];
    wait(&bar, 0);  //-
}

// case: stage_refilled_while_read   kind: missing wait   grid: 1   block: 64   args: u32[96] u32[96]=0
__global__ void k(const unsigned* x, unsigned* y) {
    __shared__ __align__(128) unsigned s[32];
    __shared__ u64 full, empty;
    if (threadIdx.x == 0) init(&full, 1), init(&empty, 32);
    __syncthreads();
    for (int step = 0; step < 3; ++step) {
        if (threadIdx.x == 0) {
            wait(&empty, (step & 1) ^ 1);
            expect(&full, 128);
            LOAD(s, x + step * 32, 128, &full);  //!
        } else if (threadIdx.x >= 32) {
            wait(&full, step & 1);
            arrive(&empty);  //-
            y[step * 32 + threadIdx.x - 32] = s[threadIdx.x - 32];
            //+ arrive(&empty);
        }
    }
}

// case: stage_refilled_before_it_is_full   kind: missing wait   grid: 1   block: 64   args: u32[256] u32[64]=0
__global__ void k(const unsigned* x, unsigned* y) {
    __shared__ __align__(128) unsigned s[128];
    __shared__ u64 full;
    if (threadIdx.x == 0) init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, 512);
        LOAD(s, x, 256, &full);
        LOAD(s + 32, x + 64, 256, &full);  //! //-
        //+ LOAD(s + 64, x + 64, 256, &full);
    }
    wait(&full, 0);
    y[threadIdx.x] = s[threadIdx.x];
}

// case: stage_read_after_the_wrong_full   kind: data race   grid: 1   block: 64   args: u32[128] u32[128]=0
__global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[2][32];
    __shared__ u64 full[2], empty[2];
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; ++i) init(&full[i], 32), init(&empty[i], 32);
    __syncthreads();
    for (int step = 0; step < 4; ++step) {
        int stage = step % 2, lane = threadIdx.x % 32;
        if (threadIdx.x < 32) {
            wait(&empty[stage], step / 2 ^ 1);
            s[stage][lane] = x[step * 32 + lane];
            arrive(&full[stage]);
        } else {
            wait(&full[0], step / 2);  //-
            //+ wait(&full[stage], step / 2);
            y[step * 32 + lane] = s[stage][31 - lane];  //!
            arrive(&empty[stage]);
        }
    }
}

// case: stage_written_after_the_wrong_empty   kind: data race   grid: 1   block: 64   args: u32[128] u32[128]=0
__global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[2][32];
    __shared__ u64 full[2], empty[2];
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; ++i) init(&full[i], 32), init(&empty[i], 32);
    __syncthreads();
    for (int step = 0; step < 4; ++step) {
        int stage = step % 2, lane = threadIdx.x % 32;
        if (threadIdx.x < 32) {
            wait(&empty[0], step / 2 ^ 1);  //-
            //+ wait(&empty[stage], step / 2 ^ 1);
            s[stage][lane] = x[step * 32 + lane];  //!
            arrive(&full[stage]);
        } else {
            wait(&full[stage], step / 2);
            y[step * 32 + lane] = s[stage][31 - lane];
            arrive(&empty[stage]);
        }
    }
}

// case: load_after_the_wrong_empty   kind: missing wait   grid: 1   block: 64   args: u32[128] u32[128]=0
__global__ void k(const unsigned* x, unsigned* y) {
    __shared__ __align__(128) unsigned s[2][32];
    __shared__ u64 full[2], empty[2];
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; ++i) init(&full[i], 1), init(&empty[i], 32);
    __syncthreads();
    for (int step = 0; step < 4; ++step) {
        int stage = step % 2;
        if (threadIdx.x == 0) {
            wait(&empty[0], step / 2 ^ 1);  //-
            //+ wait(&empty[stage], step / 2 ^ 1);
            expect(&full[stage], 128);
            LOAD(s[stage], x + step * 32, 128, &full[stage]);  //!
        } else if (threadIdx.x >= 32) {
            wait(&full[stage], step / 2);
            y[step * 32 + threadIdx.x - 32] = s[stage][63 - threadIdx.x];
            arrive(&empty[stage]);
        }
    }
}

// case: arrival_before_the_read   kind: data race   grid: 1   block: 64   args: u32[64] u32[64]=0
__global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[32];
    __shared__ u64 full, empty;
    if (threadIdx.x == 0) init(&full, 32), init(&empty, 32);
    __syncthreads();
    for (int step = 0; step < 2; ++step) {
        int lane = threadIdx.x % 32;
        if (threadIdx.x < 32) {
            wait(&empty, step ^ 1);
            s[lane] = x[step * 32 + lane];  //!
            arrive(&full);
        } else {
            wait(&full, step);
            arrive(&empty);  //-
            y[step * 32 + lane] = s[31 - lane];
            //+ arrive(&empty);
        }
    }
}
