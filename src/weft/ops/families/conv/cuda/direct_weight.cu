// The gradient of weights by its definition: a block sums the products of one channel of dy with
// one channel of x, for TAPS taps at a time. For groups of few channels, and for tensors too large
// for the indices of a matrix product.
#include <weft/convert.cuh>
#include <weft/warp.cuh>
#include "window.cuh"

using namespace weft;

// Blocks are numbered by pair of channels (x), by TAPS taps (y) and by part of the pixels (z). Each
// part is a tensor of its own in `out`; `add_parts` adds them where there are several.
template <class T, class Out, int TAPS>
__global__ void __launch_bounds__(256)
    direct_weight(const T* x, const T* dy, Out* out, const Conv p, long long each) {
    int m = blockIdx.x / p.source_c, c = blockIdx.x % p.source_c, group = m / p.target_c,
        first = blockIdx.y * TAPS;
    long long depth = (long long)p.batch * p.target_h * p.target_w, k0 = blockIdx.z * each,
              k1 = min(depth, k0 + each);
    const T* from = x + (group * p.source_c + c) * p.source[1];
    const T* gradients = dy + m * p.target[1];
    float sums[TAPS] = {};
    for (long long k = k0 + threadIdx.x; k < k1; k += 256) {
        long long row = k / p.target_w, n = row / p.target_h;
        int j = int(k - row * p.target_w), i = int(row - n * p.target_h);
        int h = i * p.stride_h - p.pad_h, w = j * p.stride_w - p.pad_w;
        float g = to<float>(gradients[n * p.target[0] + i * p.target[2] + j * p.target[3]]);
        const T* image = from + n * p.source[0];
#pragma unroll
        for (int t = 0; t < TAPS; ++t) {
            int r = (first + t) / p.S, s = first + t - r * p.S, row = h + r * p.dil_h,
                column = w + s * p.dil_w;
            if (r < p.R && unsigned(row) < p.source_h && unsigned(column) < p.source_w)
                sums[t] += g * to<float>(image[row * p.source[2] + column * p.source[3]]);
        }
    }
    __shared__ float all[8][TAPS];
#pragma unroll
    for (int t = 0; t < TAPS; ++t) {
        float sum = warp_sum(sums[t]);
        if (threadIdx.x % 32 == 0) all[threadIdx.x / 32][t] = sum;
    }
    __syncthreads();
    int t = threadIdx.x, taps = p.R * p.S;
    if (t >= TAPS || first + t >= taps) return;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < 8; ++w) sum += all[w][t];
    out[((long long)blockIdx.z * p.groups * p.target_c * p.source_c + blockIdx.x) * taps + first +
        t] = to<Out>(sum);
}
