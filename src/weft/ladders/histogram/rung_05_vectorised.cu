// rung:   05 vectorised
// idea:   16-byte loads, four in advance: enough bytes are in flight to keep the memory busy while
//         the kernel counts
// clear:  counts
// expect: load sectors per request = 16
// expect: shared atomic wavefronts per request = 1
// launch: histogram<<<min(cdiv(n, 4096), sms), 1024, 32768>>>

#ifndef AHEAD
#define AHEAD 4
#endif

__global__ void __launch_bounds__(1024)
    histogram(const int* __restrict__ x, int* counts, size_t n) {
    extern __shared__ int mine[];  // [value][lane]
    int lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < 256 * 32; i += blockDim.x) mine[i] = 0;
    __syncthreads();
    const int4* four = reinterpret_cast<const int4*>(x);
    size_t fours = n / 4, step = size_t(gridDim.x) * blockDim.x;
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    auto count = [&](int4 v) {
        atomicAdd(&mine[v.x * 32 + lane], 1);
        atomicAdd(&mine[v.y * 32 + lane], 1);
        atomicAdd(&mine[v.z * 32 + lane], 1);
        atomicAdd(&mine[v.w * 32 + lane], 1);
    };
    for (; i + (AHEAD - 1) * step < fours; i += AHEAD * step) {
        int4 v[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) v[k] = __ldcs(four + i + k * step);
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) count(v[k]);
    }
    for (; i < fours; i += step) count(four[i]);
    if (blockIdx.x == 0 && threadIdx.x < n % 4)
        atomicAdd(&mine[x[fours * 4 + threadIdx.x] * 32 + lane], 1);
    __syncthreads();
    for (int bin = threadIdx.x / 32; bin < 256; bin += blockDim.x / 32) {
        int sum = __reduce_add_sync(~0u, mine[bin * 32 + lane]);
        if (lane == 0 && sum) atomicAdd(&counts[bin], sum);
    }
}
