// rung:   11 tuned
// idea:   8 x 16 elements of C per thread and 128 x 256 per block: six vector loads from shared
//         memory give 128 products, where 8 x 8 needs four for 64. Blocks process C in bands of
//         eight rows of tiles, so that concurrent blocks share more of A and B in the L2
// expect: shared load wavefronts per request <= 2

#include <weft/problem.cuh>
#include "gemm.cuh"
#include "ragged.cuh"

using Product = Gemm<128, 256, 8, 64, 64, 8, 16, 2, 3>;
static_assert(Product::THREADS == 256 && Product::SHARED == 24832, "as launch.py says");

__global__ void __launch_bounds__(256, 1)
    matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    int2 at = tile_in_bands(blockIdx.y * gridDim.x + blockIdx.x, gridDim.y, gridDim.x);
    Product::write(Product::run(A, B, M, N, K, at.x * 128, at.y * 256, 0, K), C, M, N);
}
