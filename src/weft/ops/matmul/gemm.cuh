// A product whose tiles arrive by cp.async in a ring of stages.
//
// BM x BN of C for a block, BK of K for a stage; a warp owns WM x WN, a thread 8 x 8 or TM x TN.
// A lies in shared memory as it lies in memory, row by row; a thread reads four k of a row at once, so
// that nothing has to be turned. Its rows are padded by four numbers, which spreads the eight rows
// that a warp reads over all banks.
#pragma once
#include "tile.cuh"

__device__ inline void copy16(float* to, const float* from, bool in) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    int bytes = in ? 16 : 0;  // the rest is filled with zeros
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes));
}

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES>
struct Gemm {
    static constexpr int THREADS = BM / WM * (BN / WN) * 32;
    static constexpr int AP = BK + 4;  // numbers in a row of A's tile
    static constexpr int SHARED = STAGES * (BM * AP + BK * BN) * 4;
    static constexpr int LM = WM / TM, LN = WN / TN;  // lanes of a warp, down and across
    static_assert(LM * LN == 32, "a warp has 32 lanes");

    static __device__ void fetch(float* a, float* b, const float* A, const float* B, int r0, int c0,
                                 int k0, int M, int N, int K) {
#pragma unroll
        for (int i = threadIdx.x; i < BM * BK / 4; i += THREADS) {
            int r = i / (BK / 4), k = i % (BK / 4) * 4;
            bool in = r0 + r < M && k0 + k < K;
            copy16(a + r * AP + k, in ? A + (r0 + r) * size_t(K) + k0 + k : A, in);
        }
#pragma unroll
        for (int i = threadIdx.x; i < BK * BN / 4; i += THREADS) {
            int k = i / (BN / 4), c = i % (BN / 4) * 4;
            bool in = k0 + k < K && c0 + c < N;
            copy16(b + k * BN + c, in ? B + (k0 + k) * size_t(N) + c0 + c : B, in);
        }
        asm volatile("cp.async.commit_group;");
    }

    // Columns and rows of a thread come in groups of four that lie LN * 4 and LM apart.
    static __device__ void run(const float* A, const float* B, float* C, int M, int N, int K) {
        extern __shared__ __align__(16) float memory[];
        float *as = memory, *bs = memory + STAGES * BM * AP;
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        int ty = warp / (BN / WN) * WM + lane / LN, tx = warp % (BN / WN) * WN + lane % LN * 4;
        int r0 = blockIdx.y * BM, c0 = blockIdx.x * BN, tiles = (K + BK - 1) / BK;
        float sum[TM][TN] = {};
        for (int s = 0; s < STAGES - 1; ++s)
            fetch(as + s * BM * AP, bs + s * BK * BN, A, B, r0, c0, s * BK, M, N, K);
        for (int tile = 0; tile < tiles; ++tile) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
            __syncthreads();
            int next = tile + STAGES - 1, into = next % STAGES;
            fetch(as + into * BM * AP, bs + into * BK * BN, A, B, r0, c0, next * BK, M, N, K);
            const float* a = as + tile % STAGES * BM * AP;
            const float* b = bs + tile % STAGES * BK * BN;
#pragma unroll
            for (int k = 0; k < BK; k += 4) {
                float4 u[TM];
#pragma unroll
                for (int i = 0; i < TM; ++i)
                    u[i] = *reinterpret_cast<const float4*>(a + (ty + i * LM) * AP + k);
#pragma unroll
                for (int kk = 0; kk < 4; ++kk) {
                    float v[TN];
#pragma unroll
                    for (int j = 0; j < TN / 4; ++j) {
                        float4 f = *reinterpret_cast<const float4*>(b + (k + kk) * BN + tx + j * LN * 4);
                        v[4 * j] = f.x, v[4 * j + 1] = f.y, v[4 * j + 2] = f.z, v[4 * j + 3] = f.w;
                    }
#pragma unroll
                    for (int i = 0; i < TM; ++i) {
                        float w = kk == 0 ? u[i].x : kk == 1 ? u[i].y : kk == 2 ? u[i].z : u[i].w;
#pragma unroll
                        for (int j = 0; j < TN; ++j) sum[i][j] += w * v[j];
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN / 4; ++j)
                put4(C, r0 + ty + i * LM, c0 + tx + j * LN * 4, M, N, &sum[i][4 * j]);
    }
};
