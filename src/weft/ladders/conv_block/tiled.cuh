// The kernel of weft.ops.conv_bn_relu_pool with one of its tiles.
#include "../../ops/families/conv_block/cuda/evaluate.cuh"

template <int LANES, int FT, int TW, int WY, int IM, int CC>
__device__ void tiled(const float* x, const float* w, const float* mean, const float* var,
                      const float* gamma, const float* beta, float* out, int N, int C, int P, int Q,
                      int K) {
    extern __shared__ __align__(16) float memory[];
    BlockShape p = {
        N, C, 2 * P, 2 * Q, K, 2 * P, 2 * Q, P, Q, 1, 1, (P + WY - 1) / WY, (Q + TW - 1) / TW};
    evaluate<float, float, 3, 3, LANES, FT, TW, WY, IM, CC, 3>(memory, x, w, nullptr, mean, var,
                                                               gamma, beta, out, 1e-5f, p);
}
