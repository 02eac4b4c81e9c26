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
