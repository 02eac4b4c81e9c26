// Tensor cores through nvcuda::wmma: one warp computes a 16 x 16 tile (16 x 8 x ... for tf32).
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda/std/type_traits>
#include <mma.h>
using namespace nvcuda;

// A is row-major, B is row-major or column-major; all sizes multiples of the tile.
template <typename T, typename Stored, typename Sum, int TK, typename Layout>
__device__ void tile_gemm(const Stored* A, const Stored* B, Sum* C, int N, int K) {
    wmma::fragment<wmma::matrix_a, 16, 16, TK, T, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, TK, T, Layout> b;
    wmma::fragment<wmma::accumulator, 16, 16, TK, Sum> c;
    constexpr bool row = cuda::std::is_same<Layout, wmma::row_major>::value;
    int r = blockIdx.y * 16, col = (blockIdx.x * blockDim.y + threadIdx.y) * 16;
    if (col >= N) return;
    wmma::fill_fragment(c, Sum(0));
    for (int k = 0; k < K; k += TK) {
        wmma::load_matrix_sync(a, A + r * K + k, K);
        wmma::load_matrix_sync(b, row ? B + k * N + col : B + col * K + k, row ? N : K);
        if constexpr (cuda::std::is_same<T, wmma::precision::tf32>::value) {
            for (int i = 0; i < a.num_elements; i++) a.x[i] = wmma::__float_to_tf32(a.x[i]);
            for (int i = 0; i < b.num_elements; i++) b.x[i] = wmma::__float_to_tf32(b.x[i]);
        }
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + r * N + col, c, N, wmma::mem_row_major);
}

__global__ void f16_rows(const half* A, const half* B, float* C, int N, int K) {
    tile_gemm<half, half, float, 16, wmma::row_major>(A, B, C, N, K);
}
__global__ void f16_columns(const half* A, const half* B, float* C, int N, int K) {
    tile_gemm<half, half, float, 16, wmma::col_major>(A, B, C, N, K);
}
__global__ void f16_f16(const half* A, const half* B, half* C, int N, int K) {
    tile_gemm<half, half, half, 16, wmma::row_major>(A, B, C, N, K);
}
__global__ void bf16(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int N, int K) {
    tile_gemm<__nv_bfloat16, __nv_bfloat16, float, 16, wmma::row_major>(A, B, C, N, K);
}
__global__ void tf32(const float* A, const float* B, float* C, int N, int K) {
    tile_gemm<wmma::precision::tf32, float, float, 8, wmma::col_major>(A, B, C, N, K);
}
__global__ void int8(const signed char* A, const signed char* B, int* C, int N, int K) {
    tile_gemm<signed char, signed char, int, 16, wmma::col_major>(A, B, C, N, K);
}
__global__ void uint8(const unsigned char* A, const unsigned char* B, int* C, int N, int K) {
    tile_gemm<unsigned char, unsigned char, int, 16, wmma::row_major>(A, B, C, N, K);
}

// From shared memory with padding, epilogue on the fragment: D = relu(alpha A B + beta C).
__global__ void fused(const half* A, const half* B, const float* C, float* D, int N, int K,
                      float alpha, float beta) {
    __shared__ half a[16][24], b[16][24];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum, c;
    int r0 = blockIdx.y * 16, c0 = blockIdx.x * 16;
    wmma::fill_fragment(sum, 0.f);
    for (int k = 0; k < K; k += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) {
            a[i / 16][i % 16] = A[(r0 + i / 16) * K + k + i % 16];
            b[i / 16][i % 16] = B[(k + i / 16) * N + c0 + i % 16];
        }
        __syncwarp();
        wmma::load_matrix_sync(fa, &a[0][0], 24);
        wmma::load_matrix_sync(fb, &b[0][0], 24);
        wmma::mma_sync(sum, fa, fb, sum);
        __syncwarp();
    }
    wmma::load_matrix_sync(c, C + r0 * N + c0, N, wmma::mem_row_major);
    for (int i = 0; i < sum.num_elements; i++)
        sum.x[i] = fmaxf(alpha * sum.x[i] + beta * c.x[i], 0.f);
    wmma::store_matrix_sync(D + r0 * N + c0, sum, N, wmma::mem_row_major);
}
