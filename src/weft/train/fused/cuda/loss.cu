// The last linear layer, the cross-entropy, and their gradients down to the hidden layer. A block
// takes one image at a time.
#include "net.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32, QUADS = HIDDEN / 4, GROUPS = THREADS / QUADS;

// [parts][count][HIDDEN] -> h (after ReLU), its gradient times `scale`, the gradient of the scores
// [count][16], the loss of each image
template <bool EXACT>
__global__ void __launch_bounds__(THREADS)
    loss(const float* __restrict__ partial, int parts, const float* __restrict__ hidden_bias,
         const float* __restrict__ weight, const float* __restrict__ bias,
         const long long* __restrict__ classes, float* __restrict__ h,
         Half* __restrict__ h_gradient, float* __restrict__ score_gradient,
         float* __restrict__ losses, int count, float scale) {
    __shared__ float4 some[GROUPS][QUADS];
    __shared__ float values[HIDDEN], scores[16], gradient[16], weights[CLASSES][HIDDEN];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, quad = threadIdx.x % QUADS,
        part = threadIdx.x / QUADS;
    for (int i = threadIdx.x; i < CLASSES * HIDDEN; i += THREADS)
        weights[i / HIDDEN][i % HIDDEN] = weight[i];
    for (int n = blockIdx.x; n < count; n += gridDim.x) {
        float4 sum = {0, 0, 0, 0};
#pragma unroll 8
        for (int p = part; p < parts; p += GROUPS) {
            float4 x =
                reinterpret_cast<const float4*>(partial)[((long long)p * count + n) * QUADS + quad];
            sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
        }
        some[part][quad] = sum;
        __syncthreads();
        for (int i = threadIdx.x; i < HIDDEN; i += THREADS) {
            float x = hidden_bias[i];
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) x += reinterpret_cast<const float*>(some[g])[i];
            values[i] = x = x < 0 ? 0.0f : x;
            h[(long long)n * HIDDEN + i] = x;
        }
        __syncthreads();
        for (int k = warp; k < CLASSES; k += WARPS) {
            float x = 0;
#pragma unroll
            for (int i = lane; i < HIDDEN; i += 32) x += values[i] * weights[k][i];
            x = weft::warp_sum(x);
            if (lane == 0) scores[k] = x + bias[k];
        }
        __syncthreads();
        if (warp == 0) {
            float x = lane < CLASSES ? scores[lane] : weft::lowest();
            float most = weft::warp_reduce(x, [](float a, float b) { return fmaxf(a, b); });
            float power = lane < CLASSES ? expf(x - most) : 0.0f, all = weft::warp_sum(power);
            int right = (int)classes[n];
            float g = (power / all - (lane == right ? 1.0f : 0.0f)) / count;
            if (lane < 16)
                score_gradient[(long long)n * 16 + lane] = gradient[lane] =
                    lane < CLASSES ? g : 0.0f;
            if (lane == right) losses[n] = logf(all) + most - x;
        }
        __syncthreads();
        for (int i = threadIdx.x * 2; i < HIDDEN; i += THREADS * 2) {
            float x = 0, y = 0;
#pragma unroll
            for (int k = 0; k < CLASSES; ++k)
                x += gradient[k] * weights[k][i], y += gradient[k] * weights[k][i + 1];
            unsigned piece[PIECES<EXACT>];
            pieces<EXACT>(values[i] <= 0 ? 0.0f : x * scale, values[i + 1] <= 0 ? 0.0f : y * scale,
                          piece);
#pragma unroll
            for (int p = 0; p < PIECES<EXACT>; ++p)
                *reinterpret_cast<unsigned*>(
                    h_gradient + ((long long)n * PIECES<EXACT> + p) * HIDDEN + i) = piece[p];
        }
    }
}
