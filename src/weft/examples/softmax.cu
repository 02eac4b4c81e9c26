// softmax: y = exp(x - max x) / sum exp(x - max x), for each row.
// A block takes a row. Maximum and sum are folded within warps by shuffles, then between warps
// through shared memory.
// grid: rows   block: 256
#include <math_constants.h>

__device__ float fold_max(float a, float b) { return fmaxf(a, b); }
__device__ float fold_sum(float a, float b) { return a + b; }

template <float (*fold)(float, float)>
__device__ float across_block(float value) {
    __shared__ float of_warp[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int m = 16; m > 0; m /= 2) value = fold(value, __shfl_xor_sync(~0u, value, m));
    if (lane == 0) of_warp[warp] = value;
    __syncthreads();
    value = of_warp[0];
    for (int w = 1; w < warps; ++w) value = fold(value, of_warp[w]);
    __syncthreads();  // of_warp may be used again
    return value;
}

__global__ void softmax(const float* x, float* y, int columns) {
    const float* in = x + (long long)blockIdx.x * columns;
    float* out = y + (long long)blockIdx.x * columns;
    float top = -CUDART_INF_F, sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) top = fmaxf(top, in[i]);
    top = across_block<fold_max>(top);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(in[i] - top);
    sum = across_block<fold_sum>(sum);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = expf(in[i] - top) / sum;
}
