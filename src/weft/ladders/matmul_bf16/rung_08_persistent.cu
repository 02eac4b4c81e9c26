// rung:   08 persistent
// idea:   a kernel of weft.ops. One block for each SM computes one tile after another: the copies
//         of the next tile begin while this one is stored. Tiles follow each other in bands, so
//         that L2 serves neighbours; results pass through shared memory, so that a lane stores 16
//         bytes; the last tile has boxes of its own
// precision: bf16
// needs:  sm_90
// map:    a = A[1, 128, 64] swizzle 128
// map:    a_edge = A[1, (M - 1) % 128 + 1, 64] swizzle 128
// map:    b = B[1, 64, 64] swizzle 128
// launch: matmul<<<min(cdiv(N, 256) * cdiv(M, 128), sms), 384, 1024 + 4 * 49152 + 22528>>>

#include "../../ops/families/matmul/cuda/multiply_tiles.cuh"

using T = __nv_bfloat16;

template <int BM, int BN>
__device__ Problem problem(int M, int N, int K) {
    Problem p{};
    p.M = M, p.N = N, p.K = K, p.batch = 1, p.row_c = N, p.column_c = 1;
    p.tiles_m = ceil_div(M, BM), p.tiles_n = ceil_div(N, BN);
    return p;
}

__global__ void __launch_bounds__(384, 1)
    matmul(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap a_edge,
           const __grid_constant__ TensorMap b, T* C, int M, int N, int K) {
    Problem p = problem<128, 256>(M, N, K);
    using S = Schedule<128, 256, 4, 1, 1>;
    TensorSums<T, S, true, false> sums;
    multiply_tiles<S, Results<T, false, true, 0, NO_BIAS>>({a, a_edge, M}, {b, b, N}, a, nullptr, C,
                                                           p, sums);
}
