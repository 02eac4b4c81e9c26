// rung:   01 wmma
// idea:   a warp multiplies fragments of 16 x 16 on tensor cores: 4,096 products in one
//         instruction. The fragments come straight from global memory
// precision: bf16
// expect: instructions <= 20000
// expect: bytes read per result >= 4
// launch: matmul<<<(cdiv(N, 64), cdiv(M, 32)), 128>>>

#include <cuda_bf16.h>
#include <mma.h>

using T = __nv_bfloat16;
using namespace nvcuda;

// Four warps, 16 x 32 each.
__global__ void __launch_bounds__(128) matmul(const T* A, const T* B, T* C, int M, int N, int K) {
    __shared__ float turned[4][16 * 16];
    int warp = threadIdx.x / 32;
    int row = blockIdx.y * 32 + warp / 2 * 16, column = blockIdx.x * 64 + warp % 2 * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2];
    for (auto& s : sum) wmma::fill_fragment(s, 0.0f);
    if (row >= M) return;
    for (int k = 0; k < K; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> a;
        wmma::load_matrix_sync(a, A + size_t(row) * K + k, K);
        for (int j = 0; j < 2; ++j) {
            if (column + j * 16 >= N) break;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> b;
            wmma::load_matrix_sync(b, B + size_t(k) * N + column + j * 16, N);
            wmma::mma_sync(sum[j], a, b, sum[j]);
        }
    }
    for (int j = 0; j < 2; ++j) {
        if (column + j * 16 >= N) break;
        wmma::store_matrix_sync(turned[warp], sum[j], 16, wmma::mem_row_major);
        __syncwarp();
        for (int e = threadIdx.x % 32; e < 256; e += 32)
            C[size_t(row + e / 16) * N + column + j * 16 + e % 16] =
                __float2bfloat16(turned[warp][e]);
        __syncwarp();
    }
}
