// rung:   03 three pass
// idea:   all SMs: sums of tiles, a scan of these sums, then every tile again from its start. x is
//         read twice and y written once: at best three quarters of the speed of a single pass
// scratch: sums:f32[cdiv(n,4096)]
// launch: tile_sums<<<cdiv(n, 4096), 256>>>
// launch: scan_sums<<<1, 1024>>>
// launch: scan_tiles<<<cdiv(n, 4096), 256>>>

#define ITEMS 16

__device__ float warp_scan(float v) {
    int lane = threadIdx.x % 32;
    for (int d = 1; d < 32; d *= 2) {
        float left = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += left;
    }
    return v;
}

__global__ void tile_sums(const float* x, float* sums, size_t n) {
    __shared__ float part[8];
    size_t start = size_t(blockIdx.x) * 256 * ITEMS;
    float sum = 0;
    for (int k = 0; k < ITEMS; ++k) {
        size_t i = start + k * 256 + threadIdx.x;
        if (i < n) sum += x[i];
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) sum += part[w];
        sums[blockIdx.x] = sum;
    }
}

__global__ void scan_sums(float* sums, size_t n) {
    __shared__ float part[32];
    size_t count = (n + 256 * ITEMS - 1) / (256 * ITEMS);
    float before = 0;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (size_t start = 0; start < count; start += 1024) {
        size_t i = start + threadIdx.x;
        float up = warp_scan(i < count ? sums[i] : 0);
        if (lane == 31) part[warp] = up;
        __syncthreads();
        float all = warp_scan(part[lane]);
        float left = __shfl_sync(~0u, all, max(warp - 1, 0));
        // the sum before tile i: what its left neighbour has come to, never a difference, which
        // would lose an infinity
        up = __shfl_up_sync(~0u, up, 1);
        if (i < count) sums[i] = before + (warp ? left : 0) + (lane ? up : 0);
        before += __shfl_sync(~0u, all, 31);
        __syncthreads();
    }
}

__global__ void scan_tiles(const float* x, float* y, const float* sums, size_t n) {
    __shared__ float part[8];
    size_t start = size_t(blockIdx.x) * 256 * ITEMS;
    float before = sums[blockIdx.x];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int k = 0; k < ITEMS; ++k) {
        size_t i = start + k * 256 + threadIdx.x;
        float v = warp_scan(i < n ? x[i] : 0);
        if (lane == 31) part[warp] = v;
        __syncthreads();
        float left = 0, all = 0;
        for (int w = 0; w < 8; ++w) {
            if (w < warp) left += part[w];
            all += part[w];
        }
        if (i < n) y[i] = before + left + v;
        before += all;
        __syncthreads();
    }
}
