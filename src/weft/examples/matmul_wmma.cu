// matmul_wmma: C = A B on tensor cores, f16 in, f32 sums, n a multiple of 16.
// A warp owns a 16 x 16 tile of C. The sums are those of the hardware, bit for bit.
// grid: (n / 16, n / 16)   block: 32
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void matmul_wmma(const half* A, const half* B, float* C, int n) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(a, A + row * n + k, n);
        wmma::load_matrix_sync(b, B + k * n + col, n);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + row * n + col, c, n, wmma::mem_row_major);
}
