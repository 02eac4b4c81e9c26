// A product whose tiles arrive by cp.async in a ring of stages.
//
// BM x BN of C for a block, BK of K for a stage; a warp owns WM x WN, a thread TM x TN. A is turned
// on its way, number by number, so that what a thread needs of one k lies side by side; rows of B
// come 16 bytes at a time. What the next k needs is read from shared memory while this one is
// multiplied.
#pragma once
#include <weft/async.cuh>
#include "tile.cuh"

// Copies a thread's share of the next tiles of A and B; its places only move along K.
template <int BM, int BN, int BK, int STAGES, int THREADS>
struct Copies {
    static constexpr int AP = BM + 4;  // padded, so that turning A meets no bank twice
    static constexpr int A_SIZE = BK * AP, B_SIZE = BK * BN;
    static constexpr int AC = BM * BK / THREADS, BC = BK * BN / 4 / THREADS;
    static constexpr int A_ROWS = THREADS / BK, B_ROWS = THREADS / (BN / 4);
    static_assert(AC * THREADS == BM * BK && BC * THREADS * 4 == BK * BN, "whole copies");
    const float *a, *b;
    float *as, *bs;
    int ak, bk, left, rows, into = 0;
    bool in_columns;

    // Of K the part from k0 up to k1, a multiple of BK or the end.
    __device__ Copies(const float* A, const float* B, float* as_, float* bs_, int r0, int c0, int M,
                      int N, int K, int k0, int k1) {
        int t = threadIdx.x, ar = t / BK, bc = t % (BN / 4) * 4;
        A += k0, B += k0 * size_t(N);
        ak = t % BK, bk = t / (BN / 4), left = k1 - k0, rows = M - r0 - ar,
        in_columns = c0 + bc < N;
        a = A + (r0 + ar) * size_t(K) + ak, b = B + bk * size_t(N) + c0 + bc;
        as = as_ + ak * AP + ar, bs = bs_ + bk * BN + bc;
    }
    __device__ void next(int N, int K) {
#pragma unroll
        for (int i = 0; i < AC; ++i)
            weft::copy_async<4>(as + into * A_SIZE + i * A_ROWS, a + i * A_ROWS * size_t(K),
                                ak < left && i * A_ROWS < rows);
#pragma unroll
        for (int i = 0; i < BC; ++i)
            weft::copy_async<16>(bs + into * B_SIZE + i * B_ROWS * BN, b + i * B_ROWS * size_t(N),
                                 in_columns && bk + i * B_ROWS < left);
        weft::commit_copies();
        a += BK, b += BK * size_t(N), left -= BK;
        into = into + 1 == STAGES ? 0 : into + 1;
    }
};

// UNROLL: so many pairs of k are written out one after the other.
template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int UNROLL = 1>
struct Gemm {
    static constexpr int THREADS = BM / WM * (BN / WN) * 32;
    using Share = Copies<BM, BN, BK, STAGES, THREADS>;
    static constexpr int AP = Share::AP, A_SIZE = Share::A_SIZE, B_SIZE = Share::B_SIZE;
    static constexpr int SHARED = STAGES * (A_SIZE + B_SIZE) * 4;
    static constexpr int LM = WM / TM, LN = WN / TN;  // lanes of a warp, down and across
    static_assert(LM * LN == 32, "a warp has 32 lanes");
    static_assert(BK % 2 == 0, "k by k in two sets of registers, in turns");

    // Lanes 0 and 1 stand one below the other, lanes 0 and 2 side by side, and so on in turns: then
    // pairs of lanes ask for the same vector of B, other pairs for the same of A, and shared memory
    // serves a 16-byte load of the warp in two steps instead of four.
    // What a thread has, and where it belongs.
    struct Sums {
        int row, column;
        float of[TM][TN];
        // Calls f(row, column, place, sums) for each four of them; places are numbered 0, 1, ...
        template <class Function>
        __device__ void each(Function f) {
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; j += 4)
                    f(row + i / 4 * 4 * LM + i % 4, column + j * LN, (i * TN + j) / 4, &of[i][j]);
        }
        __device__ void write(float* C, int M, int N) {
            each([&](int r, int c, int, const float* v) { put4(C, r, c, M, N, v); });
        }
    };

    // Returns sums over k from k0 up to k1.
    static __device__ Sums run(const float* A, const float* B, int M, int N, int K, int r0, int c0,
                               int k0, int k1) {
        extern __shared__ __align__(16) float memory[];
        float *as = memory, *bs = memory + STAGES * A_SIZE;
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32, now = 0;
        int down = lane % 2 + lane / (2 * LN) * 2, across = lane / 2 % LN;
        int ty = warp / (BN / WN) * WM + down * 4, tx = warp % (BN / WN) * WN + across * 4;
        const float *pa = as + ty, *pb = bs + tx;
        float a[2][TM], b[2][TN];
        Sums sums{r0 + ty, c0 + tx, {}};
        Share share(A, B, as, bs, r0, c0, M, N, K, k0, k1);

        auto load = [&](int to, int k) {
#pragma unroll
            for (int i = 0; i < TM; i += 4)
                *reinterpret_cast<float4*>(&a[to][i]) =
                    *reinterpret_cast<const float4*>(pa + k * AP + i * LM);
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                *reinterpret_cast<float4*>(&b[to][j]) =
                    *reinterpret_cast<const float4*>(pb + k * BN + j * LN);
        };
        auto multiply = [&](int from) {
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) {
                    int jj = i % 2 ? TN - 1 - j
                                   : j;  // there and back: the operand at a turn is used again
                    sums.of[i][jj] += a[from][i] * b[from][jj];
                }
        };
        auto wait = [&]() {
            weft::wait_copies<STAGES - 2>();
            __syncthreads();
        };
        for (int s = 0; s < STAGES - 1; ++s) share.next(N, K);
        wait();
        load(0, 0);
#pragma unroll 1
        for (int tile = (k1 - k0 + BK - 1) / BK; tile > 0; --tile) {
            share.next(N, K);
#pragma unroll UNROLL
            for (int k = 2; k < BK; k += 2) {
                load(1, 1);
                multiply(0);
                load(0, 2);
                multiply(1);
                pa += 2 * AP, pb += 2 * BN;
            }
            load(1, 1);
            multiply(0);
            wait();  // for the next tile, whose first k is read already
            now = now + 1 == STAGES ? 0 : now + 1;
            pa = as + now * A_SIZE + ty, pb = bs + now * B_SIZE + tx;
            load(0, 0);
            multiply(1);
        }
        weft::wait_all_copies();  // of what lies past the end: memory is free again
        return sums;
    }
};
