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
    static constexpr int AC = BM * BK / 4 / THREADS, BC = BK * BN / 4 / THREADS;  // copies of a thread
    static_assert(LM * LN == 32, "a warp has 32 lanes");
    static_assert(AC * THREADS * 4 == BM * BK && BC * THREADS * 4 == BK * BN, "whole copies");

    // What a thread copies for each stage: places that only move along K.
    struct Copies {
        const float *a, *b;
        int k, left, ar[AC];
        bool bc[BC];
        __device__ Copies(const float* A, const float* B, int r0, int c0, int M, int N, int K) {
            int t = threadIdx.x;
            k = t % (BK / 4) * 4, left = K;
            a = A + (r0 + t / (BK / 4)) * size_t(K) + k;
            b = B + t / (BN / 4) * size_t(N) + c0 + t % (BN / 4) * 4;
#pragma unroll
            for (int i = 0; i < AC; ++i) ar[i] = r0 + t / (BK / 4) + i * (THREADS / (BK / 4)) < M;
#pragma unroll
            for (int i = 0; i < BC; ++i) bc[i] = c0 + t % (BN / 4) * 4 < N;
        }
        __device__ void fetch(float* as, float* bs, int N, int K) {
            int t = threadIdx.x;
#pragma unroll
            for (int i = 0; i < AC; ++i)
                copy16(as + (t / (BK / 4) + i * (THREADS / (BK / 4))) * AP + k,
                       a + i * (THREADS / (BK / 4)) * size_t(K), ar[i] && k < left);
#pragma unroll
            for (int i = 0; i < BC; ++i) {
                int row = t / (BN / 4) + i * (THREADS / (BN / 4));
                copy16(bs + row * BN + t % (BN / 4) * 4, b + i * (THREADS / (BN / 4)) * size_t(N),
                       bc[i] && row < left);
            }
            asm volatile("cp.async.commit_group;");
            a += BK, b += BK * size_t(N), left -= BK;
        }
    };

    // Lanes 0 and 1 stand one below the other, lanes 0 and 2 side by side, and so on in turns: then
    // pairs of lanes ask for the same vector of B, other pairs for the same of A, and shared memory
    // serves a 16-byte load of the warp in two steps instead of four.
    static __device__ void run(const float* A, const float* B, float* C, int M, int N, int K) {
        extern __shared__ __align__(16) float memory[];
        float *as = memory, *bs = memory + STAGES * BM * AP;
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        int down = lane % 2 + lane / (2 * LN) * 2, across = lane / 2 % LN;
        int ty = warp / (BN / WN) * WM + down, tx = warp % (BN / WN) * WN + across * 4;
        int r0 = blockIdx.y * BM, c0 = blockIdx.x * BN, tiles = (K + BK - 1) / BK;
        float sum[TM][TN] = {};
        Copies copies(A, B, r0, c0, M, N, K);
        for (int s = 0; s < STAGES - 1; ++s) copies.fetch(as + s * BM * AP, bs + s * BK * BN, N, K);
        int now = 0, into = STAGES - 1;
        for (int tile = 0; tile < tiles; ++tile) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
            __syncthreads();
            copies.fetch(as + into * BM * AP, bs + into * BK * BN, N, K);
            const float* a = as + now * BM * AP + ty * AP;
            const float* b = bs + now * BK * BN + tx;
            now = now + 1 == STAGES ? 0 : now + 1, into = into + 1 == STAGES ? 0 : into + 1;
#pragma unroll 1
            for (int k = 0; k < BK; k += 4) {
                float4 u[TM];
#pragma unroll
                for (int i = 0; i < TM; ++i) u[i] = *reinterpret_cast<const float4*>(a + i * LM * AP + k);
#pragma unroll
                for (int kk = 0; kk < 4; ++kk) {
                    float v[TN];
#pragma unroll
                    for (int j = 0; j < TN / 4; ++j) {
                        float4 f = *reinterpret_cast<const float4*>(b + (k + kk) * BN + j * LN * 4);
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
