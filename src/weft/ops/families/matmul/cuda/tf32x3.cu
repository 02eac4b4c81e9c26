// Matrix products on tensor cores with the accuracy of single precision. Each number is the sum of
// two of tf32, and of their four products three count: C = Ab Bb + Ab Bs + As Bb. Tensor cores cut
// their sums off, so what they add up over one stage is added to the result by ordinary additions.
#include <weft/mma.cuh>
#include "tiled.cuh"
#include "problem.cuh"

template <int BM, int BN, int BK, int WM, int WN, int STAGES, int AMODE, int BMODE, int ACTIVATION>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32)
    tensor(const float* A, const float* B, const float* bias, float* C, const Problem p) {
    constexpr int THREADS = BM / WM * (BN / WN) * 32, DOWN = WM / 16, ACROSS = WN / 8;
    using SideA = Side<BM, BK, THREADS, AMODE,
                       8>;  // lanes read 8 neighbours of 4 rows: 8 words between rows suit them
    using SideB = Side<BN, BK, THREADS, BMODE, 8>;
    extern __shared__ __align__(16) float memory[];
    float *as = memory, *bs = memory + STAGES * SideA::SIZE;
    Place at = Place::here<BM, BN>(p);
    if (at.batch >= p.batch) return;
    SideA a_side(A + at.batch * p.batch_a, as, p.lda, at.row, p.M, 0, p.K);
    SideB b_side(B + at.batch * p.batch_b, bs, p.ldb, at.column, p.N, 0, p.K);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    int m0 = warp / (BN / WN) * WM, n0 = warp % (BN / WN) * WN, into = 0, now = 0;
    float sums[DOWN][ACROSS][4] = {};
    auto fetch = [&]() {
        a_side.next(into);
        b_side.next(into);
        commit_copies();
        into = into + 1 == STAGES ? 0 : into + 1;
    };
    for (int s = 0; s < STAGES - 1; ++s) fetch();
#pragma unroll 1
    for (int k0 = 0; k0 < p.K; k0 += BK) {
        wait_copies<STAGES - 2>();
        __syncthreads();
        fetch();
        const float *pa = as + now * SideA::SIZE + m0 + group,
                    *pb = bs + now * SideB::SIZE + n0 + group;
        float part[DOWN][ACROSS][4] = {};
#pragma unroll
        for (int k = 0; k < BK; k += 8) {
            unsigned a_big[DOWN][4], a_small[DOWN][4], b_big[ACROSS][2], b_small[ACROSS][2];
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    split_tf32(pa[(k + t + j / 2 * 4) * SideA::PITCH + i * 16 + j % 2 * 8],
                               a_big[i][j], a_small[i][j]);
#pragma unroll
            for (int n = 0; n < ACROSS; ++n)
#pragma unroll
                for (int j = 0; j < 2; ++j)
                    split_tf32(pb[(k + t + j * 4) * SideB::PITCH + n * 8], b_big[n][j],
                               b_small[n][j]);
            // One of the three products of all results, then the next: neighbouring instructions do
            // not wait for each other.
            auto product = [&](const unsigned (*a)[4], const unsigned (*b)[2]) {
#pragma unroll
                for (int i = 0; i < DOWN; ++i)
#pragma unroll
                    for (int n = 0; n < ACROSS; ++n) mma<float>(part[i][n], a[i], b[n]);
            };
            product(a_small, b_big);
            product(a_big, b_small);
            product(a_big, b_big);
        }
#pragma unroll
        for (int i = 0; i < DOWN; ++i)
#pragma unroll
            for (int n = 0; n < ACROSS; ++n)
#pragma unroll
                for (int j = 0; j < 4; ++j) sums[i][n][j] += part[i][n][j];
        now = now + 1 == STAGES ? 0 : now + 1;
    }
    wait_all_copies();
    C += at.batch * p.batch_c;
    if (bias) bias += at.batch * p.batch_bias;
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int n = 0; n < ACROSS; ++n)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                int m = at.row + m0 + i * 16 + group + j / 2 * 8,
                    c = at.column + n0 + n * 8 + t * 2 + j % 2;
                if (m >= p.M || c >= p.N) continue;
                float value = sums[i][n][j];
                if (bias) value += bias[m * p.row_bias + c * p.column_bias];
                C[m * p.row_c + c * p.column_c] = activated<ACTIVATION>(value);
            }
}
