// Matrix products on tensor cores with the accuracy of single precision. Each number is the sum of
// two of tf32, and of their four products three count: C = Ab Bb + Ab Bs + As Bb. Tensor cores cut
// their sums off, so what they add up over one stage is added to the result by ordinary additions.
#include "tiled.cuh"
#include "../../../core/cuda/problem.cuh"

struct Split {
    unsigned big, small;
    __device__ explicit Split(float x) {
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(big) : "f"(x));
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(small) : "f"(x - __uint_as_float(big)));
    }
};

__device__ inline void multiply(float* c, const unsigned* a, const unsigned* b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

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
        asm volatile("cp.async.commit_group;");
        into = into + 1 == STAGES ? 0 : into + 1;
    };
    for (int s = 0; s < STAGES - 1; ++s) fetch();
#pragma unroll 1
    for (int k0 = 0; k0 < p.K; k0 += BK) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
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
                for (int j = 0; j < 4; ++j) {
                    Split s(pa[(k + t + j / 2 * 4) * SideA::PITCH + i * 16 + j % 2 * 8]);
                    a_big[i][j] = s.big, a_small[i][j] = s.small;
                }
#pragma unroll
            for (int n = 0; n < ACROSS; ++n)
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    Split s(pb[(k + t + j * 4) * SideB::PITCH + n * 8]);
                    b_big[n][j] = s.big, b_small[n][j] = s.small;
                }
            // One of the three products of all results, then the next: neighbouring instructions do
            // not wait for each other.
            auto product = [&](const unsigned (*a)[4], const unsigned (*b)[2]) {
#pragma unroll
                for (int i = 0; i < DOWN; ++i)
#pragma unroll
                    for (int n = 0; n < ACROSS; ++n) multiply(part[i][n], a[i], b[n]);
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
    asm volatile("cp.async.wait_all;");
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
                if (m < p.M && c < p.N) finish<ACTIVATION>(C, bias, p, m, c, sums[i][n][j]);
            }
}
