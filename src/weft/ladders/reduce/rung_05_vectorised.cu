// rung:   05 vectorised
// idea:   16-byte loads, eight in flight before the first is used: the memory latency is 660
//         cycles, and bandwidth depends on the bytes in flight
// clear:  y
// expect: load sectors per request = 16
// launch: reduce<<<min(cdiv(n, 16384), 2 * sms), 512>>>

#define AHEAD 8

__device__ float warp_sum(float v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    return v;
}

__global__ void __launch_bounds__(512) reduce(const float* __restrict__ x, float* y, size_t n) {
    __shared__ float part[16];
    const float4* four = reinterpret_cast<const float4*>(x);
    size_t fours = n / 4, step = size_t(gridDim.x) * 512;
    size_t i = size_t(blockIdx.x) * 512 + threadIdx.x;
    float sum = 0;
    for (; i + (AHEAD - 1) * step < fours; i += AHEAD * step) {
        float4 v[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) v[k] = __ldcs(four + i + k * step);
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
    }
    for (; i < fours; i += step) {
        float4 v = four[i];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 4) sum += x[fours * 4 + threadIdx.x];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 16; ++w) sum += part[w];
        atomicAdd(y, sum);
    }
}
