// rung:   11 tuned
// idea:   8 x 16 elements of C for a thread and 128 x 256 for a block: six vectors from shared memory make
//         128 products, where 8 x 8 need four for 64. Blocks go through C in bands of eight rows of
//         tiles, so that those that run together share more of A and B in the L2
// expect: shared load wavefronts per request = 2
// launch: matmul<<<(cdiv(N, 256), cdiv(M, 128)) if (N % 4 == 0) * (K % 4 == 0) else 0, 256, 37248>>>
// launch: ragged<<<(cdiv(N, 128), cdiv(M, 128)) if (N % 4 > 0) + (K % 4 > 0) else 0, 256>>>

#include "gemm.cuh"
#include "ragged.cuh"

using Tile = Gemm<128, 256, 8, 64, 64, 8, 16, 3>;
static_assert(Tile::THREADS == 256 && Tile::SHARED == 37248, "as the launch says");
constexpr int BAND = 8;

__global__ void __launch_bounds__(256, 1) matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    int id = blockIdx.y * gridDim.x + blockIdx.x, band = id / (BAND * gridDim.x) * BAND;
    int rest = id - band * gridDim.x, high = min(BAND, int(gridDim.y) - band);
    Tile::run(A, B, C, M, N, K, (band + rest % high) * 128, rest / high * 256);
}
