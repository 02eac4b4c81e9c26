// What the rungs with a block of 256 threads per row share.
#pragma once
#include <cuda_bf16.h>
#include <weft/warp.cuh>

using T = __nv_bfloat16;

__device__ inline float larger(float a, float b) { return a > b || a != a ? a : b; }
__device__ inline float plus(float a, float b) { return a + b; }
__device__ inline float lowest() { return __int_as_float(0xff800000); }

// The combination of the values of all threads, in each of them.
template <class Join>
__device__ float across(float v, Join join) {
    __shared__ float part[8];
    v = weft::warp_reduce(v, join);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = part[0];
    for (int w = 1; w < 8; ++w) v = join(v, part[w]);
    return v;
}

// The maximum of a thread's elements and the sum of their exponentials relative to it (online
// softmax).
struct Running {
    float most = lowest(), sum = 0;
    __device__ void take(float v) {
        if (v > most) sum *= __expf(most - v), most = v;
        sum += __expf(v - most);
    }
};

// The gradient of an element: x relative to the maximum of its row.
__device__ inline T gradient(float x, float sum, bool is_label) {
    return __float2bfloat16(__expf(x) / sum - is_label);
}
