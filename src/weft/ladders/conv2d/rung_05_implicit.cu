// rung:   05 implicit product
// idea:   a convolution is a matrix product: filters [K][C * R * R] times windows
//         [C * R * R][pixel]. Windows are gathered while tiles are loaded into shared memory, by
//         asynchronous copies, and are never stored. Register tiles of 8 x 8 then need four vector
//         loads for 64 products
// expect: shared load wavefronts per request <= 2
// launch: conv2d<<<cdiv(K, 128)*cdiv(N*H*W, 128), 256, 4*2*16*(128 + 4 + 128)>>>

#include "../../ops/families/conv/cuda/implicit.cuh"

__global__ void __launch_bounds__(256, 2)
    conv2d(const float* x, const float* w, float* y, int N, int C, int H, int W, int K, int R) {
    Conv p = {};
    p.batch = N, p.groups = 1, p.source_c = C, p.source_h = H, p.source_w = W;
    p.target_c = K, p.target_h = H, p.target_w = W;
    p.R = p.S = R, p.stride_h = p.stride_w = 1, p.pad_h = p.pad_w = R / 2, p.dil_h = p.dil_w = 1;
    p.weight_target = C * R * R, p.weight_source = R * R, p.splits = 1;
    p.tiles_m = (K + 127) / 128, p.tiles_n = (N * H * W + 127) / 128;
    p.source[0] = (long long)C * H * W, p.source[1] = H * W, p.source[2] = W, p.source[3] = 1;
    p.target[0] = (long long)K * H * W, p.target[1] = H * W, p.target[2] = W, p.target[3] = 1;
    p.wide = H * W % 4 == 0;
    implicit_block<128, 128, 16, 64, 32, 8, 8, 2, false, false, false>(x, w, nullptr, y, nullptr,
                                                                       nullptr, p);
}
