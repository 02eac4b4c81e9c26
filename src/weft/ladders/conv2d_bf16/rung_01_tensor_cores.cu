// rung:   01 tensor cores
// idea:   the implicit product on tensor cores: rows are pixels, columns are filters. One launch
//         first brings the channels innermost, padded to 8: then each copy into shared memory is a
//         16-byte vector of one pixel, ldmatrix reads it without conflicts, and mma.sync makes
//         2,048 products with one instruction
// precision: bf16
// expect: instructions < 100000
// scratch: xp:bf16[N*H*W*cdiv(C, 8)*8]
// scratch: wp:bf16[K*R*R*cdiv(C, 8)*8]
// launch: pack_all<<<N*cdiv(H*W, 64)*cdiv(cdiv(C, 8)*8, 64) + cdiv(K*R*R*cdiv(C, 8), 256), 256>>>
// launch: conv2d<<<cdiv(K, 64)*cdiv(N*H*W, 64), 128, 3*128*128>>>

#include "../../ops/families/conv/cuda/pack.cuh"
#include "../../ops/families/conv/cuda/tensor.cuh"

using bf16 = __nv_bfloat16;

__global__ void __launch_bounds__(256) pack_all(const bf16* x, const bf16* w, bf16* xp, bf16* wp,
                                                int N, int C, int H, int W, int K, int R) {
    __shared__ Vector<bf16, 8> memory[512];
    int padded = (C + 7) / 8 * 8, tiles = (H * W + 63) / 64;
    int deep = (padded + 63) / 64, blocks = N * tiles * deep;
    Images images = {blocks, tiles, deep, 1, C, padded, H * W, W, H * W % 8 ? 1 : 8};
    images.batch = (long long)C * H * W, images.channel = H * W, images.row = W, images.column = 1;
    Weights weights = {K, C, R * R, padded, K * R * R * padded / 8, C * R * R, R * R, 1};
    if (blockIdx.x < blocks) pack_images(x, xp, images, blockIdx.x, memory);
    else pack_weights<bf16, false>(w, wp, weights, (blockIdx.x - blocks) * 256 + threadIdx.x);
}

__global__ void __launch_bounds__(128, 4)
    conv2d(const bf16* xp, const bf16* wp, bf16* y, int N, int C, int H, int W, int K, int R) {
    int padded = (C + 7) / 8 * 8;
    Conv p = {};
    p.batch = N, p.groups = 1, p.source_c = padded, p.source_h = H, p.source_w = W;
    p.target_c = K, p.target_h = H, p.target_w = W;
    p.R = p.S = R, p.stride_h = p.stride_w = 1, p.pad_h = p.pad_w = R / 2, p.dil_h = p.dil_w = 1;
    p.weight_target = R * R * padded, p.splits = 1;
    p.tiles_m = (K + 63) / 64, p.tiles_n = (N * H * W + 63) / 64, p.wide = H * W % 8 == 0;
    p.source[0] = (long long)H * W * padded, p.source[1] = 1;
    p.source[2] = W * padded, p.source[3] = padded;
    p.target[0] = (long long)K * H * W, p.target[1] = H * W, p.target[2] = W, p.target[3] = 1;
    tensor_block<bf16, 64, 64, 128, 32, 32, 3, false, false, false>(xp, wp, BiasEpilogue<bf16>{}, y,
                                                                    nullptr, nullptr, p);
}
