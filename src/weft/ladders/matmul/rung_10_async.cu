// rung:   10 async
// idea:   cp.async copies tiles directly into shared memory, in a ring of three stages: no
//         registers hold data in flight. The operands of the next k are loaded during the
//         multiply-adds of the current one
// expect: shared load wavefronts per request <= 2

#include "gemm.cuh"
#include "ragged.cuh"

using Product = Gemm<128, 128, 16, 64, 32, 8, 8, 3>;
static_assert(Product::THREADS == 256 && Product::SHARED == 49920, "as launch.py says");

__global__ void __launch_bounds__(256, 2)
    matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    Product::Sums sums = Product::run(A, B, M, N, K, blockIdx.y * 128, blockIdx.x * 128, 0, K);
    Product::write(sums, C, M, N);
}
