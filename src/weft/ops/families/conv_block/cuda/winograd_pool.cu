// The last kernel of the block in evaluation after Winograd's products (conv/winograd.cu): a tile
// of 4 x 4 results becomes 2 x 2 pooled ones, and the convolution is never written.
#include "../../conv/cuda/winograd.cuh"
#include "evaluate.cuh"

// One thread per tile and filter. `p` describes the pooled images: h and w are theirs, and the
// tiles those of the convolution.
template <class P>
__global__ void __launch_bounds__(128)
    to_pooled(const float* __restrict__ from, const float* __restrict__ bias,
              const P* __restrict__ mean, const P* __restrict__ var, const P* __restrict__ gamma,
              const P* __restrict__ beta, float eps, float* __restrict__ out, const Tiles p) {
    int tile = blockIdx.x * 128 + threadIdx.x;
    if (tile >= p.count) return;
    int row = tile / p.tiles_w, j = tile - row * p.tiles_w, n = row / p.tiles_h,
        i = row - n * p.tiles_h;
    for (int c = blockIdx.y; c < p.channels; c += gridDim.y) {
        float made[4][4];
        results_of(made, from, p, c, tile);
        float scale = or_else(gamma, c, 1.0f) * rsqrtf(to<float>(var[c]) + eps),
              shift = or_else(beta, c, 0.0f);
        float offset = or_else(bias, c, 0.0f) - to<float>(mean[c]);
        float* to_ = out + n * p.batch + c * p.channel + 2 * i * p.row + 2 * j * p.column;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            int y = e / 2, x = e % 2;
            float most = 0;
#pragma unroll
            for (int k = 0; k < 4; ++k)
                most = max_nan(most, (made[2 * y + k / 2][2 * x + k % 2] + offset) * scale + shift);
            if (2 * i + y < p.h && 2 * j + x < p.w) to_[y * p.row + x * p.column] = most;
        }
    }
}
