// Barriers, warp-wide calls, asynchronous copies, waiting, local memory, indices, the heap.

// case: barrier_in_half_a_warp   kind: barrier divergence   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t % 32 < 16) __syncthreads();  //!  //-
    //+ __syncthreads();
    s[t] = s[t] + 1;
    __syncthreads();
    y[t] = s[t];
}

// case: barriers_on_both_sides   kind: barrier divergence   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < 32) {
        s[t] = x[t];
        __syncthreads();  //-
    } else {
        s[t] = 2 * x[t];
        __syncthreads();  //!  //-
    }
    //+ __syncthreads();
    y[t] = s[63 - t];
}

// case: barrier_in_a_loop_of_some   kind: barrier divergence   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = 0;
    __syncthreads();
    for (int i = 0; i < 2 + t / 48; i++) {  //-
    //+ for (int i = 0; i < 2; i++) {
        s[t] += x[t];
        __syncthreads();  //!
    }
    y[t] = s[t];
    __syncthreads();
    y[t] += s[63 - t];
}

// case: counts_differ   kind: barrier misuse   grid: 1   block: 96   args: f32[96] f32[96]
__global__ void k(const float* x, float* y) {
    __shared__ float s[96];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t < 64) asm volatile("bar.sync 1, 96;" ::: "memory");
    else asm volatile("bar.sync 1, 64;" ::: "memory");  //!  //-
    //+ else asm volatile("bar.sync 1, 96;" ::: "memory");
    y[t] = s[95 - t];
}

// case: never_arrives   kind: barrier divergence   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(const float* x, float* y) {
    int t = threadIdx.x;
    y[t] = 0;
    if (t < 32) asm volatile("bar.sync 1, 64;" ::: "memory");  //!
    else asm volatile("bar.sync 2, 64;" ::: "memory");  //-
    //+ else asm volatile("bar.sync 1, 64;" ::: "memory");
    y[t] = x[t];
}

// case: shuffle_in_a_branch   kind: missing lanes   grid: 1   block: 32   args: i32[32] i32[32]
__global__ void k(const int* x, int* y) {
    int t = threadIdx.x, v = x[t], w = 0;
    if (t < 16) w = __shfl_sync(0xffffffffu, v, 20);  //!  //-
    //+ w = __shfl_sync(0xffffffffu, v, 20);
    y[t] = v + w;
}

// case: vote_in_a_branch   kind: missing lanes   grid: 1   block: 32   args: i32[32] i32[32]
__global__ void k(const int* x, int* y) {
    int t = threadIdx.x, n = 0;
    if (x[t] & 1) n = __popc(__ballot_sync(0xffffffffu, x[t] > 10));  //!  //-
    //+ n = __popc(__ballot_sync(0xffffffffu, x[t] > 10));
    y[t] = n;
}

// case: reduce_in_a_branch   kind: missing lanes   grid: 1   block: 32   args: i32[32] i32[32]
__global__ void k(const int* x, int* y) {
    unsigned n = 0;
    if (threadIdx.x != 5) n = __reduce_add_sync(0xffffffffu, x[threadIdx.x] & 7);  //!  //-
    //+ n = __reduce_add_sync(0xffffffffu, x[threadIdx.x] & 7);
    y[threadIdx.x] = n;
}

// case: syncwarp_of_all_by_some   kind: missing lanes   grid: 1   block: 32   args: i32[32] i32[32]
__global__ void k(const int* x, int* y) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncwarp();
    if (t < 8) {
        __syncwarp();  //!  //-
        s[t] += 1;
    }
    __syncwarp();
    y[t] = s[31 - t];
}

// case: own_lane_not_in_mask   kind: missing lanes   grid: 1   block: 32   args: i32[32] i32[32]
__global__ void k(const int* x, int* y) {
    int v = x[threadIdx.x];
    y[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, v, 1);  //!  //-
    //+ y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, v, 1);
}

// case: match_in_a_branch   kind: missing lanes   grid: 1   block: 32   args: i32[32] i32[32]
__global__ void k(const int* x, int* y) {
    unsigned m = 0;
    if (threadIdx.x >= 4) m = __match_any_sync(0xffffffffu, x[threadIdx.x] & 3);  //!  //-
    //+ m = __match_any_sync(0xffffffffu, x[threadIdx.x] & 3);
    y[threadIdx.x] = m;
}

// case: mma_by_half_a_warp   kind: missing lanes   grid: 1   block: 32   args: u32[128] f32[128]
__global__ void k(const unsigned* x, float* y) {
    int t = threadIdx.x;
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    if (t < 16)  //-
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"  //!
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(x[t] & 0x3c003c00), "r"(0), "r"(0x3c003c00));  //!
    y[4 * t] = d0 + d1 + d2 + d3;
}

// case: copy_not_waited_for   kind: missing wait   grid: 1   block: 32   args: f32[128] f32[32]
#include <cuda_pipeline.h>
__global__ void k(const float4* x, float* y) {
    __shared__ float4 s[32];
    __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 16);
    __pipeline_commit();
    //+ __pipeline_wait_prior(0);
    y[threadIdx.x] = s[threadIdx.x].x;  //!
}

// case: copy_waited_for_too_few   kind: missing wait   grid: 1   block: 32   args: f32[256] f32[32]
#include <cuda_pipeline.h>
__global__ void k(const float4* x, float* y) {
    __shared__ float4 s[2][32];
    int t = threadIdx.x;
    for (int i = 0; i < 2; i++) {
        __pipeline_memcpy_async(&s[i][t], &x[32 * i + t], 16);
        __pipeline_commit();
    }
    __pipeline_wait_prior(1);
    float a = s[0][t].x;
    //+ __pipeline_wait_prior(0);
    y[t] = a + s[1][t].y;  //!
}

// case: copy_of_another_thread   kind: data race   grid: 1   block: 64   args: f32[256] f32[64]
#include <cuda_pipeline.h>
__global__ void k(const float4* x, float* y) {
    __shared__ float4 s[64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], &x[t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    //+ __syncthreads();
    y[t] = s[63 - t].x;  //!
}

// case: copy_target_overwritten   kind: missing wait   grid: 1   block: 32   args: f32[128] f32[32]
#include <cuda_pipeline.h>
__global__ void k(const float4* x, float* y) {
    __shared__ float4 s[32];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], &x[t], 16);
    __pipeline_commit();
    //+ __pipeline_wait_prior(0);
    s[t].x = 1;  //!
    __pipeline_wait_prior(0);
    y[t] = s[t].x + s[t].y;
}

// case: spin_on_a_plain_flag   kind: spin   grid: 2   block: 1   limit: 10   args: i32[1]=0 i32[2]
__global__ void k(int* flag, int* y) {
    if (blockIdx.x == 0) {
        while (*flag == 0) {}  //!  //-
        //+ while (*(volatile int*)flag == 0) {}
        y[0] = 1;
    } else {
        atomicExch(flag, 1);
        y[1] = 2;
    }
}

// case: local_array_not_filled   kind: uninitialised   grid: 1   block: 32   args: i32[32] f32[32]
__global__ void k(const int* x, float* y) {
    float a[8];
    for (int i = 0; i < 8; i++) if (x[i] != 12345678) a[(x[i] & 3)] = i;  //-
    //+ for (int i = 0; i < 8; i++) a[i] = x[i];
    y[threadIdx.x] = a[4 + (x[threadIdx.x] & 3)];  //!
}

// case: local_past_the_end   kind: out of bounds   grid: 1   block: 32   args: i32[32] f32[32]
__global__ void k(const int* x, float* y) {
    float a[4];
    for (int i = 0; i < 4; i++) a[i] = x[i];
    a[(x[threadIdx.x] & 3) + 1000] = 1;  //!  //-
    //+ a[(x[threadIdx.x] & 3)] = 1;
    y[threadIdx.x] = a[x[threadIdx.x] & 3];
}

// case: product_wraps   kind: index overflow   grid: 1   block: 32   args: f32[64] f32[32] 65536 65536
__global__ void k(const float* x, float* y, int rows, int pitch) {
    int i = threadIdx.x;
    y[i] = x[rows * pitch + i];  //!  //-
    //+ y[i] = x[(size_t)rows * pitch % 64 + i];
}

// case: row_index_wraps   kind: index overflow   grid: 2   block: 32   args: f32[64] f32[64] 1073741824
__global__ void k(const float* x, float* y, int pitch) {
    int i = blockIdx.x * 32 + threadIdx.x;
    y[i] = x[(blockIdx.x * 4 * pitch) + threadIdx.x];  //!  //-
    //+ y[i] = x[((long long)blockIdx.x * 4 * pitch) % 64 + threadIdx.x];
}

// case: byte_offset_wraps   kind: index overflow   grid: 1   block: 32   args: u8[64] u8[32] 268435456
__global__ void k(const unsigned char* x, unsigned char* y, int n) {
    int i = threadIdx.x;
    int at = n * 16 + i;  //!  //-
    //+ int at = (int)((long long)n * 16 % 64) + i;
    y[i] = x[at];  //!
}

// case: leaked   kind: leak   grid: 1   block: 4   args: i32[4]
__global__ void k(int* y) {
    int* p = (int*)malloc(64);  //!
    p[0] = threadIdx.x;
    y[threadIdx.x] = p[0];
    //+ free(p);
}

// case: freed_twice   kind: double free   grid: 1   block: 1   args: i32[4]
__global__ void k(int* y) {
    int* p = (int*)malloc(64);
    p[0] = 5;
    y[0] = p[0];
    free(p);
    free(p);  //!  //-
}

// case: used_after_free   kind: out of bounds   grid: 1   block: 1   args: i32[4]
__global__ void k(int* y) {
    volatile int* p = (volatile int*)malloc(64);
    p[0] = 5;
    free((void*)p);  //-
    y[0] = p[0];  //!
    //+ free((void*)p);
}

// case: heap_not_written   kind: uninitialised   grid: 1   block: 4   args: i32[4]
__global__ void k(int* y) {
    volatile int* p = (volatile int*)malloc(64);
    p[0] = 1;
    //+ p[1] = 2;
    y[threadIdx.x] = p[1];  //!
    free((void*)p);
}

// case: copy_left_behind_by_a_block   kind: missing wait   grid: 64   block: 32   args: f32[128] f32[2048]
#include <cuda_pipeline.h>
__global__ void k(const float4* x, float* y) {
    __shared__ float4 s[32];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], &x[t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    float a = s[t].x;
    __pipeline_memcpy_async(&s[t], &x[31 - t], 16);  // nobody waits for it: the block ends
    __pipeline_commit();
    a += s[t].y;  //!  //-
    y[32 * blockIdx.x + t] = a;
}

// case: copy_of_what_another_block_writes   kind: data race   grid: 2   block: 32   args: f32[256]
#include <cuda_pipeline.h>
__global__ void k(float4* a) {
    __shared__ float4 s[32];
    int t = threadIdx.x, mine = 32 * blockIdx.x + t, other = 32 - 32 * blockIdx.x + t;
    int zeros = 0;  //-
    //+ int zeros = t < 16 ? 8 : 16;
    __pipeline_memcpy_async(&s[t], &a[other], 16, zeros);  //!
    __pipeline_commit();
    __pipeline_wait_prior(0);
    if (t < 16) a[mine].w = s[t].x;
    else a[mine] = s[t];
}

// case: barrier_behind_a_spinning_thread   kind: barrier divergence   grid: 3   block: 64   args: u32[1]=0 f32[64] f32[192] 1 0
__global__ void k(unsigned* flag, float* x, float* y, int n, int apart) {
    int t = threadIdx.x;
    float sum = 0;
    int i = 0;
    do {
        if (blockIdx.x < gridDim.x - 1) {
            if (t == 0) while (*(volatile unsigned*)(flag + i) == 0) {}
            if (t != apart)  //-
            __syncthreads();  //!
        } else if (t == 0) {
            for (int k = 0; k < 5000; k++) sum += *(volatile float*)(x + k % 64);  // they spin for long
            atomicExch(flag + i, 1u);
        }
        sum += x[t] * i;
    } while (++i < n);
    y[64 * blockIdx.x + t] = sqrtf(sum);
}

// case: another_barrier_for_who_spins   kind: barrier divergence   grid: 3   block: 64   args: u32[1]=0 f32[64] f32[192] 1
__global__ void k(unsigned* flag, float* x, float* y, int n) {
    int t = threadIdx.x;
    float sum = 0;
    int i = 0;
    do {
        if (blockIdx.x < gridDim.x - 1) {
            if (t == 0) {
                while (*(volatile unsigned*)(flag + i) == 0) {}
                asm volatile("bar.sync 1, 64;" ::: "memory");  //-
                sum += 1;
            } else {  //-
                asm volatile("bar.sync 1, 64;" ::: "memory");  //!  //-
            }
            //+ asm volatile("bar.sync 1, 64;" ::: "memory");
        } else if (t == 0) {
            for (int k = 0; k < 5000; k++) sum += *(volatile float*)(x + k % 64);  // they spin for long
            atomicExch(flag + i, 1u);
        }
        sum += x[t] * i;
    } while (++i < n);
    y[64 * blockIdx.x + t] = sqrtf(sum);
}

// case: barriers_of_an_inlined_function   kind: barrier divergence   grid: 1   block: 64   args: f32[64]
__device__ __forceinline__ void meet() {
    __syncthreads();  //!
}
__global__ void k(float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = t;
    //+ meet();
    if (t & 1) {
        y[t] = 0;
        meet();  //-
        y[t] += s[63 - t];
    } else {
        meet();  //-
        y[t] = s[t ^ 2];
    }
}

// case: barriers_of_two_instances   kind: barrier divergence   grid: 1   block: 128   args: f32[128]
template <int step> __device__ float shifted(float* s, float* y) {
    s[threadIdx.x] += step;
    __syncthreads();  //!  //-
    return s[threadIdx.x ^ 32] + step;  //-
    //+ return step;
}
__global__ void k(float* y) {
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = t;
    float v = t / 32 % 2 ? shifted<1>(s, y) : shifted<2>(s, y);
    //+ __syncthreads();
    //+ v += s[t ^ 32];
    y[t] = v;
}

// case: barrier_that_warps_skip   kind: barrier divergence   grid: 1   block: 256   args: f32[256] f32[256]
__global__ void k(const float* x, float* y) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t < 128)  //-
    __syncthreads();  //!
    y[t] = s[255 - t];
}

// case: barrier_that_warps_skip_not_one_that_they_exit_before   kind: barrier divergence   grid: 2   block: 64   args: f32[128]
__global__ void k(float* y) {
    int i = 64 * blockIdx.x + threadIdx.x;
    if (i < 96) __syncthreads();  //!  //-
    //+ if (i >= 96) { y[i] = 2; return; }
    //+ __syncthreads();
    y[i] = 1;
}

// case: barrier_in_a_loop_that_warps_leave   kind: barrier divergence   grid: 1   block: 96   args: f32[96]
__global__ void k(float* y) {
    int t = threadIdx.x, n = 2 + t / 32;  //-
    //+ int t = threadIdx.x, n = 3;
    //+ if (t >= 40) return;
    for (int j = 0; j < 2; j++) {
        for (int i = 0; i < n; i++) {
            y[t] += i;
            __syncthreads();  //!
        }
        //+ if (t >= 32) return;
        y[t] *= 2;
    }
    y[t] += 1;
}

// case: two_pairs_at_one_barrier   kind: barrier misuse   grid: 1   block: 128   args: f32[128] f32[128]
__global__ void k(const float* x, float* y) {
    __shared__ float s[128];
    int t = threadIdx.x, pair = t / 64;
    s[t] = x[t];
    asm volatile("bar.sync %0, 64;" ::"r"(1) : "memory");  //!  //-
    //+ asm volatile("bar.sync %0, 64;" ::"r"(1 + pair) : "memory");
    y[t] = s[t ^ 32] + pair;
}

// case: two_pairs_one_after_the_other   kind: barrier misuse   grid: 1   block: 128   args: f32[128] f32[128]
__global__ void k(const float* x, float* y) {
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t < 64) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        y[t] = s[t ^ 32];
        //+ asm volatile("bar.arrive 2, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 64;" ::: "memory");  //-
        //+ asm volatile("bar.sync 2, 128;" ::: "memory");
        asm volatile("bar.sync 1, 64;" ::: "memory");  //!
        y[t] = s[t ^ 32];
    }
}

// case: pair_that_meets_a_third_warp   kind: barrier misuse   grid: 1   block: 96   args: f32[96] f32[96]
__global__ void k(const float* x, float* y) {
    __shared__ float s[96];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t < 64) asm volatile("bar.sync 1, 64;" ::: "memory");
    //+ asm volatile("barrier.sync 0;" ::: "memory");
    if (t >= 32) asm volatile("bar.sync 1, 64;" ::: "memory");  //!
    y[t] = s[t];
}

// case: parity_of_the_next_phase   kind: wrong parity   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    __shared__ unsigned long long bar;
    int t = threadIdx.x;
    unsigned at = __cvta_generic_to_shared(&bar), done, parity = 1;  //-
    //+ unsigned at = __cvta_generic_to_shared(&bar), done, parity = 0;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at));
    __syncthreads();
    s[t] = x[t];
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(at) : "memory");
    __syncthreads();
    do asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2;"  //!
                    " selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(at), "r"(parity) : "memory");
    while (!done);
    y[t] = s[63 - t];
}

// case: parity_of_the_phase_before   kind: wrong parity   grid: 1   block: 64   args: f32[64] f32[64]
__global__ void k(const float* x, float* y) {
    __shared__ unsigned long long bar;
    int t = threadIdx.x;
    unsigned at = __cvta_generic_to_shared(&bar), done, parity = 0;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at));
    __syncthreads();
    for (int i = 0; i < 2; i++) {
        asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(at) : "memory");
        do asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2;"  //!
                        " selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(at), "r"(parity) : "memory");
        while (!done);
        //+ parity ^= 1;
    }
    //+ for (int i = 0; i < 2; i++) {  // the last phase of the first warp is not the current one
    //+     __syncthreads();
    //+     if (t == 32 * i) asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0], 64; }" ::"r"(at) : "memory");
    //+ }
    //+ __syncthreads();
    //+ asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 1;"
    //+              " selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
    y[t] = x[t] + done;
}
