// A product whose tiles arrive by cp.async in a ring of stages: the tiles of weft.ops.matmul, for
// matrices whose rows follow one another.
//
// BM x BN of C for a block, BK of K for a stage; a warp owns WM x WN, a thread TM x TN. A is
// transposed on its way, number by number, so that what a thread needs of one k lies side by side;
// rows of B come 16 bytes at a time. What the next k needs is read from shared memory while this
// one is multiplied.
#pragma once
#include "../../ops/families/matmul/cuda/tiled.cuh"
#include "tile.cuh"

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int UNROLL = 1>
struct Gemm {
    static constexpr int THREADS = BM / WM * (BN / WN) * 32;
    using A = Side<BM, BK, THREADS, 2>;
    using B = Side<BN, BK, THREADS, 0>;
    using Sums = Tile<BM, BN, BK, WM, WN, TM, TN, STAGES, A, B, UNROLL>;
    static constexpr int SHARED = Sums::ROOM * 4;

    // Returns the sums over k from k0 up to k1 of the tile at row r0 and column c0.
    static __device__ Sums run(const float* a, const float* b, int M, int N, int K, int r0, int c0,
                               int k0, int k1) {
        extern __shared__ __align__(16) float memory[];
        float *as = memory, *bs = memory + STAGES * A::SIZE;
        Sums sums;
        sums.run(A(a, as, K, r0, M, k0, k1), B(b, bs, N, c0, N, k0, k1), as, bs, k0, k1);
        sums.row += r0, sums.column += c0;
        return sums;
    }
    static __device__ void write(const Sums& sums, float* C, int M, int N) {
        sums.each([&](int row, int column, const float* v) { put4(C, row, column, M, N, v); });
    }
};
