// rung:   02 strips
// idea:   weights and pixels in shared memory, loaded by cp.async in a ring of three stages. A warp
//         has two rows of 14 pixels and 32 filters, one per lane: a row of pixels, once read,
//         serves three columns of the filter and two rows of the result
// expect: bytes read per result <= 10

#include "tiled.cuh"

__global__ void __launch_bounds__(224, 2)
    block(const float* x, const float* w, const float* mean, const float* var, const float* gamma,
          const float* beta, float* out, int N, int C, int P, int Q, int K) {
    tiled<32, 1, 7, 7, 1, 8>(x, w, mean, var, gamma, beta, out, N, C, P, Q, K);
}
