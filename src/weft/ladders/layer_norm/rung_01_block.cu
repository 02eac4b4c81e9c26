// rung:   01 block
// idea:   one block per row: adjacent threads read adjacent elements, and warps sum by shuffles.
//         The row is still read three times
// precision: bf16
// expect: load sectors per request <= 3
// launch: layer_norm<<<rows, 256>>>

#include <cuda_bf16.h>

// The sum over the block, in every thread.
__device__ float total(float v) {
    __shared__ float part[8];
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < 8; ++i) v += part[i];
    return v;
}

__global__ void layer_norm(const __nv_bfloat16* x, const __nv_bfloat16* w, const __nv_bfloat16* b,
                           __nv_bfloat16* y, int n) {
    x += size_t(blockIdx.x) * n, y += size_t(blockIdx.x) * n;
    float mean = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += 256) mean += float(x[i]);
    mean = total(mean) / n;
    for (int i = threadIdx.x; i < n; i += 256)
        squares += (float(x[i]) - mean) * (float(x[i]) - mean);
    float rstd = rsqrtf(total(squares) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += 256)
        y[i] = __float2bfloat16((float(x[i]) - mean) * rstd * float(w[i]) + float(b[i]));
}
