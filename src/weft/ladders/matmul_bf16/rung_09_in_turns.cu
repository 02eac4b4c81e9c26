// rung:   09 in turns
// idea:   each of two warpgroups computes tiles of its own, by turns (CUTLASS's ping-pong): one
//         stores its results while the other multiplies, so that the tensor cores do not wait for
//         stores. weft.ops has both kernels and chooses by a model of their times
// precision: bf16
// needs:  sm_90
// map:    a = A[1, 128, 64] swizzle 128
// map:    a_edge = A[1, (M - 1) % 128 + 1, 64] swizzle 128
// map:    b = B[1, 64, 64] swizzle 128
// launch: in_turns<<<min(cdiv(N, 192) * cdiv(M, 128), sms), 384, 1024 + 4 * 40960 + 21504>>>

#include "rung_08_persistent.cu"

__global__ void __launch_bounds__(384, 1)
    in_turns(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap a_edge,
             const __grid_constant__ TensorMap b, T* C, int M, int N, int K) {
    Problem p = problem<128, 192>(M, N, K);
    using S = Schedule<128, 192, 4, 1, 1, true>;
    TensorSums<T, S, true, false> sums;
    multiply_tiles<S, Results<T, false, true, 0, NO_BIAS>>({a, a_edge, M}, {b, b, N}, a, nullptr, C,
                                                           p, sums);
}
