// Tiles of a single-precision matrix product, for any strides: both operands arrive by cp.async in
// a ring of stages.
//
// BM x BN of C for a block and BK of K for a stage; a warp owns WM x WN, a thread TM x TN. In
// shared memory both operands lie as [k][m] and [k][n], so that what a thread needs of one k is
// side by side. What the next k needs is read from shared memory while this one is multiplied.
#pragma once
#include <weft/async.cuh>
#include "parts.cuh"

using namespace weft;

// One operand: `extent` is its size along M or N. MODE says what is contiguous in memory:
// 0: M or N, 16 bytes at a time; 1: M or N, 4 bytes at a time; 2: K, 4 bytes at a time.
// PAD keeps rows of shared memory from meeting in the same banks.
template <int B, int BK, int THREADS, int MODE, int PAD = MODE == 2 ? 4 : 0>
struct Side {
    static constexpr int PITCH = B + PAD;
    static constexpr int SIZE = BK * PITCH, WIDE = MODE == 0 ? 4 : 1;
    static constexpr int TOTAL = B * BK / WIDE, COPIES = (TOTAL + THREADS - 1) / THREADS;
    static constexpr int ALONG =
        MODE == 2 ? BK : B / WIDE;  // copies that lie side by side in memory
    static constexpr int APART = THREADS / ALONG;  // rows between two copies of a thread
    static_assert(THREADS % ALONG == 0, "a thread stays in its column");

    const float* from;
    float* to;
    long long stride, step;
    int left, extent;  // of K and of M or N, from this thread's first copy on

    // The operand from `start` on along M or N, and K from k0 up to k1; `ld` is the stride that is
    // not 1.
    __device__ Side(const float* base, float* shared, long long ld, int start, int size, int k0,
                    int k1) {
        int fast = threadIdx.x % ALONG * WIDE, slow = threadIdx.x / ALONG;
        left = k1 - k0 - (MODE == 2 ? fast : slow),
        extent = size - start - (MODE == 2 ? slow : fast), stride = ld;
        if constexpr (MODE == 2) {
            from = base + (start + slow) * ld + k0 + fast, step = BK;
            to = shared + fast * PITCH + slow;
        } else {
            from = base + (k0 + slow) * ld + start + fast, step = BK * ld;
            to = shared + slow * PITCH + fast;
        }
    }
    __device__ void next(int stage) {
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            if (TOTAL % THREADS && i * THREADS + int(threadIdx.x) >= TOTAL) break;
            bool inside =
                MODE == 2 ? left > 0 && i * APART < extent : extent > 0 && i * APART < left;
            float* at = to + stage * SIZE + (MODE == 2 ? i * APART : i * APART * PITCH);
            copy_async<4 * WIDE>(at, from + i * APART * stride, inside);
        }
        from += step, left -= BK;
    }
    __device__ void prepare(int) {}
};

// The product of a tile. SideA and SideB bring the stages: `next(stage)` starts the copies of the
// next BK of K. Once in each step of the loop, between two barriers, `prepare(stage)` of B may
// compute what `next(stage)` needs in the step after. UNROLL pairs of k, by default all, are
// written out one after the other.
template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, class SideA,
          class SideB, int UNROLL = BK / 2>
struct Tile {
    static constexpr int THREADS = BM / WM * (BN / WN) * 32;
    using A = SideA;
    using B = SideB;
    static constexpr int LM = WM / TM, LN = WN / TN;  // lanes of a warp, down and across
    static constexpr int ROWS = TM, COLUMNS = TN,
                         ROOM = STAGES * (A::SIZE + B::SIZE);  // of a thread; words of memory
    static_assert(LM * LN == 32 && BK % 2 == 0,
                  "a warp has 32 lanes; k by k in two sets of registers, in turns");

    int row, column;  // of the first result of this thread, in the tile
    float of[TM][TN];

    // The place of a lane in its warp. Lanes stand in pairs, down and across in turns: a 16-byte
    // load of the warp takes two steps instead of four.
    static __device__ int down() { return threadIdx.x % 2 + threadIdx.x % 32 / (2 * LN) * 2; }
    static __device__ int across() { return threadIdx.x % 32 / 2 % LN; }

    // Calls f(row, column, values) for each four results that lie side by side.
    template <class Function>
    __device__ void each(Function f) const {
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                f(row + i / 4 * 4 * LM + i % 4, column + j * LN, &of[i][j]);
    }

    // Sums over k from k0 up to k1.
    __device__ void run(A a_side, B b_side, float* as, float* bs, int k0, int k1) {
        int warp = threadIdx.x / 32, now = 0, into = 0;
        row = warp / (BN / WN) * WM + down() * 4, column = warp % (BN / WN) * WN + across() * 4;
        const float *pa = as + row, *pb = bs + column;
        float a[2][TM], b[2][TN];
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; ++j) of[i][j] = 0;
        auto fetch = [&]() {
            a_side.next(into);
            b_side.next(into);
            commit_copies();
            into = into + 1 == STAGES ? 0 : into + 1;
        };
        auto load = [&](int to, int k) {
#pragma unroll
            for (int i = 0; i < TM; i += 4)
                *reinterpret_cast<float4*>(&a[to][i]) =
                    *reinterpret_cast<const float4*>(pa + k * A::PITCH + i * LM);
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                *reinterpret_cast<float4*>(&b[to][j]) =
                    *reinterpret_cast<const float4*>(pb + k * B::PITCH + j * LN);
        };
        auto multiply = [&](int from) {
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) {
                    int jj = i % 2 ? TN - 1 - j
                                   : j;  // there and back: the operand at a turn is used again
                    of[i][jj] += a[from][i] * b[from][jj];
                }
        };
        auto wait = [&]() {
            wait_copies<STAGES - 2>();
            __syncthreads();
        };
        for (int s = 0; s < STAGES - 1; ++s) fetch();
        wait();
        load(0, 0);
#pragma unroll 1
        for (int tile = (k1 - k0 + BK - 1) / BK; tile > 0; --tile) {
            fetch();
            b_side.prepare(into);
#pragma unroll UNROLL
            for (int k = 2; k < BK; k += 2) {
                load(1, 1);
                multiply(0);
                load(0, 2);
                multiply(1);
                pa += 2 * A::PITCH, pb += 2 * B::PITCH;
            }
            load(1, 1);
            multiply(0);
            wait();  // for the next tile, whose first k is read already
            now = now + 1 == STAGES ? 0 : now + 1;
            pa = as + now * A::SIZE + row, pb = bs + now * B::SIZE + column;
            load(0, 0);
            multiply(1);
        }
        wait_all_copies();
    }
    __device__ bool joined(float* parts, int* counters, long long slot, int split, int splits) {
        return join_parts<THREADS>(reinterpret_cast<float (&)[TM * TN]>(of), parts, counters, slot,
                                   split, splits);
    }
};
