// rung:   03 half warps
// idea:   a lane has four filters instead of one, so each pixel that it reads is multiplied four
//         times, and shared memory delivers a quarter for the same products. 16 lanes have 64
//         filters: a warp has two strips, and a block two images, which share the weights. The
//         kernel of weft.ops.conv_bn_relu_pool
// expect: bytes read per result <= 5

#include "tiled.cuh"

__global__ void __launch_bounds__(224, 1)
    block(const float* x, const float* w, const float* mean, const float* var, const float* gamma,
          const float* beta, float* out, int N, int C, int P, int Q, int K) {
    tiled<16, 4, 7, 7, 2, 8>(x, w, mean, var, gamma, beta, out, N, C, P, Q, K);
}
