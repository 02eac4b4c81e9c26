// Order of accesses: plain accesses beside a thread's own atomics, several readers, member masks.

// case: histogram_zeroed_without_barrier   kind: data race   grid: 1   block: 64   args: i32[64] i32[8]
__global__ void k(const int* x, int* y) {
    __shared__ int h[8];
    int t = threadIdx.x;
    if (t < 8) h[t] = 5;  //!
    //+ __syncthreads();
    atomicAdd(&h[t & 7], x[t]);
    __syncthreads();
    if (t < 8) y[t] = h[t];
}

// case: histogram_zeroed_within_the_warp   kind: data race   grid: 1   block: 64   args: i32[64] i32[8]
__global__ void k(const int* x, int* y) {
    __shared__ int h[8];
    int t = threadIdx.x;
    if (t < 8) h[t] = 0;  //!
    __syncwarp();  //-
    //+ __syncthreads();
    atomicAdd(&h[x[t] & 7], 1);
    __syncthreads();
    if (t < 8) y[t] = h[t];
}

// case: counter_reset_by_the_first_block   kind: data race   grid: 4   block: 64   args: i32[1]=7
__global__ void k(int* count) {
    if (blockIdx.x == 0 && threadIdx.x == 0) *count = 0;  //!  //-
    if (threadIdx.x == 0) atomicAdd(count, 1);
}

// case: counter_reset_before_a_barrier   kind: data race   grid: 4   block: 64   args: i32[1]=7 i32[4]
__global__ void k(int* count, int* y) {
    if (blockIdx.x == 0 && threadIdx.x == 40) *count = 0;  //!  //-
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = atomicAdd(count, 1);
}

// case: maximum_starts_at_a_plain_value   kind: data race   grid: 2   block: 32   args: i32[64] i32[1]=0
__global__ void k(const int* x, int* most) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.x == 0) *most = x[i];  //!  //-
    atomicMax(most, x[i]);
}

// case: flag_set_plainly_and_then_volatile   kind: data race   grid: 1   block: 64   args: i32[64]
__global__ void k(int* y) {
    __shared__ int flag;
    int t = threadIdx.x;
    if (t == 0) {
        flag = 0;  //!
        //+ __threadfence_block();
        *(volatile int*)&flag = 1;
    }
    //+ __syncthreads();
    if (t == 32) *(volatile int*)&flag = 2;
    __syncthreads();
    y[t] = flag;
}

// case: warp_scan_in_place   kind: data race   grid: 1   block: 32   args: i32[32] i32[32]
__global__ void k(const int* x, int* y) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncwarp();
    for (int d = 1; d < 32; d *= 2) {
        if (t >= d) s[t] += s[t - d];  //!  //-
        //+ int v = t >= d ? s[t - d] : 0;
        //+ __syncwarp();
        //+ s[t] += v;
        __syncwarp();
    }
    y[t] = s[t];
}

// case: warp_scan_own_value_first   kind: data race   grid: 1   block: 32   args: i32[32] i32[32]
__global__ void k(const int* x, int* y) {
    __shared__ volatile int s[32];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncwarp();
    for (int d = 1; d < 32; d *= 2) {
        int own = *(int*)&s[t], other = t >= d ? *(int*)&s[t - d] : 0;
        //+ __syncwarp();
        *(int*)&s[t] = own + other;  //!
        __syncwarp();
    }
    y[t] = s[t];
}

// case: block_scan_own_value_first   kind: data race   grid: 1   block: 128   args: i32[128] i32[128]
__global__ void k(const int* x, int* y) {
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    int own = s[t];
    int other = t >= 32 ? s[t - 32] : 0;
    //+ __syncthreads();
    s[t] = own + other;  //!
    __syncthreads();
    y[t] = s[t];
}

// case: second_warp_reads_last   kind: data race   grid: 1   block: 96   args: i32[96] i32[96]
__global__ void k(const int* x, int* y) {
    __shared__ int s[32];
    int t = threadIdx.x, v = 0;
    if (t < 32) s[t] = x[t];
    __syncthreads();
    if (t < 64) v = s[t & 31];
    //+ __syncthreads();
    if (t < 32) s[t] = v + 1;  //!
    __syncthreads();
    y[t] = s[t & 31] + v;
}

// case: scratch_scan_own_value_first   kind: data race   grid: 1   block: 32   args: i32[32] i32[32]
__global__ void k(int* scratch, int* y) {
    int t = threadIdx.x;
    int own = scratch[t];
    int other = scratch[(t + 1) & 31];
    //+ __syncwarp();
    scratch[t] = own + other;  //!
    __syncwarp();
    y[t] = scratch[t];
}

// case: one_lane_writes_what_all_read   kind: data race   grid: 1   block: 32   args: i32[32] i32[32]
__global__ void k(const int* x, int* y) {
    __shared__ int s;
    int t = threadIdx.x;
    if (t == 0) s = x[0];
    __syncwarp();
    int v = s;
    //+ __syncwarp();
    if (t == 0) s = v + 1;  //!
    __syncwarp();
    y[t] = s + v;
}

// case: halves_synchronise_apart   kind: data race   grid: 1   block: 32   args: f32[32] f32[32]
__global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = x[t] + 1;
    __syncwarp(t < 16 ? 0xffff : 0xffff0000);  //-
    //+ __syncwarp();
    y[t] = s[31 - t];  //!
}

// case: half_synchronises   kind: data race   grid: 1   block: 32   args: f32[32] f32[32]
__global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = x[t] + 1;
    if (t < 16) {
        __syncwarp(0xffff);
        y[t] = s[31 - t];  //!  //-
        //+ y[t] = s[15 - t];
    }
}

// case: shuffle_of_half_a_warp_is_no_barrier_of_all   kind: data race   grid: 1   block: 32   args: f32[32] f32[32]
__global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = x[t] + 1;
    float v = t < 16 ? __shfl_xor_sync(0xffff, x[t], 1) : 0;
    //+ __syncwarp();
    y[t] = s[31 - t] + v;  //!
}

// case: quarters_exchange_with_neighbours   kind: data race   grid: 2   block: 64   args: i32[128] i32[128]
__global__ void k(const int* x, int* y) {
    __shared__ int s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    unsigned mask = 0xffu << (t & 24);
    s[t] = x[i];
    __syncwarp(mask);
    int v = s[t ^ 1];
    __syncwarp(mask);
    s[t] = v;
    __syncwarp(mask);
    y[i] = s[t ^ 8];  //!  //-
    //+ y[i] = s[t ^ 4];
}

// case: groups_of_sixteen   kind: data race   grid: 1   block: 64   args: i32[64] i32[64]
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(const int* x, int* y) {
    __shared__ int s[64];
    int t = threadIdx.x;
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    s[t] = x[t];
    tile.sync();
    y[t] = s[t ^ 16];  //!  //-
    //+ y[t] = s[t ^ 8];
}

// case: chain_of_masks   kind: data race   grid: 1   block: 32   args: i32[32] i32[32]
__global__ void k(const int* x, int* y) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t < 16) __syncwarp(0x0000ffff);
    if (t >= 8 && t < 24) __syncwarp(0x00ffff00);
    if (t == 20) y[t] = s[30];  //!  //-
    //+ if (t == 20) y[t] = s[2];
}

// case: shuffle_from_outside_the_mask   kind: missing lanes   grid: 1   block: 32   args: i32[32]
__global__ void k(int* y) {
    int t = threadIdx.x, r = 0;
    if (t < 16) r = __shfl_sync(0x0000ffff, t * 3, 31);  //!  //-
    //+ if (t < 16) r = __shfl_sync(0x0000ffff, t * 3, 15);
    y[t] = r;
}

// case: shuffle_past_the_end_of_the_block   kind: missing lanes   grid: 1   block: 24   args: i32[24]
__global__ void k(int* y) {
    int t = threadIdx.x;
    int v = __shfl_down_sync(0xffffff, t, 8);  //!
    y[t] = v;  //-
    //+ y[t] = t + 8 < 24 ? v : 0;
}

// case: sum_of_a_ragged_warp   kind: missing lanes   grid: 1   block: 40   args: f32[40] f32[2]
__global__ void k(const float* x, float* y) {
    float v = x[threadIdx.x];
    int n = threadIdx.x < 32 ? 32 : 8;
    for (int d = 16; d > 0; d /= 2) {
        float o = __shfl_down_sync(__activemask(), v, d);  //!
        v += o;  //-
        //+ if (threadIdx.x % 32 + d < n) v += o;
    }
    if (threadIdx.x % 32 == 0) y[threadIdx.x / 32] = v;
}

// case: butterfly_of_a_part   kind: missing lanes   grid: 1   block: 32   args: f32[32] f32[32]
__global__ void k(const float* x, float* y) {
    int t = threadIdx.x;
    float v = x[t];
    if (t < 20) {
        v += __shfl_xor_sync(0xfffff, v, 16);  //!  //-
        //+ v += __shfl_xor_sync(0xfffff, v, 1);
    }
    y[t] = v;
}

// case: neighbour_that_has_returned   kind: missing lanes   grid: 1   block: 32   args: i32[32] i32[32]
__global__ void k(const int* x, int* y) {
    int t = threadIdx.x;
    if (t >= 30) return;
    int v = __shfl_down_sync(0x3fffffff, x[t], 1);  //!  //-
    //+ int v = __shfl_up_sync(0x3fffffff, x[t], 1);
    y[t] = v;
}

// case: shuffle_selects_a_branch   kind: missing lanes   grid: 1   block: 16   args: i32[16] i32[16]
__global__ void k(const int* x, int* y) {
    int t = threadIdx.x;
    int v = __shfl_sync(0xffff, x[t], t + 4);  //!  //-
    //+ int v = __shfl_sync(0xffff, x[t], t + 4, 16);
    if (v > 50) y[t] = 1;
    else y[t] = 2;
}
