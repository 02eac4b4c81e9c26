// rung:   04 swizzle
// idea:   the kernel of weft.ops. The chunks of a row of shared memory are exchanged by an
//         exclusive or with the row's number: eight rows that an ldmatrix reads are in different
//         banks. Larger tiles, 128 x 256 with 64 x 64 per warp, read less; fragments of the next 16
//         of K are loaded, and stages copied, between the products of these; results pass through
//         shared memory, so that stores are whole sectors
// precision: bf16
// expect: shared load wavefronts per request <= 5

#include "../../ops/families/matmul/cuda/half.cu"

using T = __nv_bfloat16;

template <class G, int BM, int BN>
__device__ void product(const T* A, const T* B, T* C, int M, int N, int K) {
    Problem p{};
    p.M = M, p.N = N, p.K = K, p.splits = 1, p.batch = 1, p.lda = K, p.ldb = N;
    p.row_c = N, p.column_c = 1;
    p.tiles_m = (M + BM - 1) / BM, p.tiles_n = (N + BN - 1) / BN;
    half_tile<G, BM, BN, 0, false>(A, B, (const T*)nullptr, C, nullptr, nullptr, p);
}

__global__ void __launch_bounds__(256, 1) large(const T* A, const T* B, T* C, int M, int N, int K) {
    product<HalfGemm<T, 128, 256, 64, 64, 64, 3, true, 16, false, 16>, 128, 256>(A, B, C, M, N, K);
}
__global__ void __launch_bounds__(128) small(const T* A, const T* B, T* C, int M, int N, int K) {
    product<HalfGemm<T, 64, 64, 64, 32, 32, 4, true, 16, false, 16>, 64, 64>(A, B, C, M, N, K);
}
