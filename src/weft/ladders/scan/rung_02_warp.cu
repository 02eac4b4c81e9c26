// rung:   02 warp
// idea:   a warp scans 32 values in registers with five shuffles; one value per warp goes through
//         shared memory: two barriers per tile instead of twenty
// bench:  n=2**22
// launch: scan<<<1, 1024>>>

__device__ float warp_scan(float v) {
    int lane = threadIdx.x % 32;
    for (int d = 1; d < 32; d *= 2) {
        float left = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += left;
    }
    return v;
}

__global__ void scan(const float* x, float* y, size_t n) {
    __shared__ float sums[32];
    float before = 0;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (size_t start = 0; start < n; start += 1024) {
        size_t i = start + threadIdx.x;
        float v = warp_scan(i < n ? x[i] : 0);
        if (lane == 31) sums[warp] = v;
        __syncthreads();
        float all = warp_scan(sums[lane]);
        float left = __shfl_sync(~0u, all, max(warp - 1, 0));
        if (i < n) y[i] = before + v + (warp ? left : 0);
        before += __shfl_sync(~0u, all, 31);
        __syncthreads();
    }
}
