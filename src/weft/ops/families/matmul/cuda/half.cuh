// Tiles of a matrix product of 16-bit elements on tensor cores: mma.sync with sums in single
// precision. Both operands arrive by cp.async in a ring of stages, and pass to registers by
// ldmatrix.
//
// BM x BN of C for a block and BK of K for a stage; a warp owns WM x WN. What the next 16 of K need
// is read from shared memory while these are multiplied.
#pragma once
#include <weft/async.cuh>
#include <weft/convert.cuh>
#include <weft/mma.cuh>

using namespace weft;

// 16 bytes of elements at any address, on their way: the aligned 16 bytes where they begin, and the
// next.
struct UnalignedVector {
    uint4 low = {}, high = {};
    unsigned shift = 0;
    int bytes = 0;

    // Reads `there` elements; memory from `begin` up to `end` may be read.
    template <class T>
    __device__ void read(const T* from, int there, size_t begin, size_t end) {
        constexpr int SIZE = sizeof(T), EACH = 4 / SIZE;  // elements of a word
        unsigned misplaced = static_cast<unsigned>(reinterpret_cast<size_t>(from)) % 16;
        auto* vectors =
            reinterpret_cast<const uint4*>(reinterpret_cast<const char*>(from) - misplaced);
        low = high = {}, shift = misplaced, bytes = there * SIZE;
        if (bytes <= 0) return;
        bool both = shift + bytes > 16;
        size_t whole = reinterpret_cast<size_t>(vectors);
        if (whole >= begin && whole + (both ? 32 : 16) <= end) {
            low = vectors[0];
            if (both) high = vectors[1];
            return;
        }
        // Loads that do not wait for each other: a tile with such vectors is often the last one.
        unsigned w[4] = {};
#pragma unroll
        for (int j = 0; j < 16 / SIZE; ++j)
            if (j < there) w[j / EACH] |= bits_of(from[j]) << j % EACH * SIZE * 8;
        low = make_uint4(w[0], w[1], w[2], w[3]), shift = 0;
    }
    // The same where whole vectors may be read.
    template <class T>
    __device__ void read(const T* from, int there) {
        shift = static_cast<unsigned>(reinterpret_cast<size_t>(from)) % 16,
        bytes = there * int(sizeof(T));
        auto* vectors = reinterpret_cast<const uint4*>(reinterpret_cast<const char*>(from) - shift);
        uint4 none = {};
        low = bytes > 0 ? vectors[0] : none,
        high = bytes > 0 && shift + bytes > 16 ? vectors[1] : none;
    }
    // The bits of an element of 8 or 16.
    template <class T>
    static __device__ unsigned bits_of(const T& x) {
        if constexpr (sizeof(T) == 1) return reinterpret_cast<const unsigned char&>(x);
        else return reinterpret_cast<const unsigned short&>(x);
    }
    // The elements, and zeros after them.
    __device__ uint4 joined() const {
        return bytes >= 16 ? funnel_shift(low, high, shift) : masked(mask_of(bytes));
    }
    __device__ uint4 masked(uint4 mask) const {
        uint4 v = funnel_shift(low, high, shift);
        return make_uint4(v.x & mask.x, v.y & mask.y, v.z & mask.z, v.w & mask.w);
    }
    static __device__ uint4 mask_of(int bytes) {
        auto bits = [&](int at) {
            int left = bytes - at;
            return left >= 4 ? ~0u : left > 0 ? (1u << left * 8) - 1 : 0u;
        };
        return make_uint4(bits(0), bits(4), bits(8), bits(12));
    }
};

// One operand: B elements along M or N, and BK along K, for a stage. KMAJOR: K is contiguous in
// memory, so that a row of shared memory is BK long, else B. BYTES are copied at a time. Rows that
// begin at any element (2) have no copies: their chunks are read in aligned vectors, wait in
// registers, and are stored before the same part of the next stage.
template <class T, int B, int BK, int THREADS, bool KMAJOR, int BYTES>
struct HalfSide {
    static constexpr bool UNALIGNED = BYTES == 2;
    static constexpr int LENGTH = KMAJOR ? BK : B, SIZE = B * BK,
                         CHUNKS = LENGTH / 8;  // chunks of 16 bytes
    static constexpr int EACH = UNALIGNED ? 8 : BYTES / 2, ALONG = LENGTH / EACH,
                         APART = THREADS / ALONG;
    static constexpr int COPIES = (SIZE / EACH + THREADS - 1) / THREADS;
    static constexpr int PARTS = BK / 16, BUFFERED = UNALIGNED ? COPIES : 1;
    static constexpr int SHARING = CHUNKS >= 8 ? 1 : 8 / CHUNKS;  // rows that share 128 bytes
    static_assert(THREADS % ALONG == 0, "a thread stays in its column");

    // The place of element (row, i) in a stage. Chunks of eight neighbouring rows are in different
    // banks, so that ldmatrix and the copies need no more steps than their bytes do. Rows repeat
    // the pattern after 8 * SHARING.
    static __device__ int at(int row, int i) {
        int chunk = (i / 8) ^ (row / SHARING % (CHUNKS < 8 ? CHUNKS : 8));
        return row * LENGTH + chunk * 8 + i % 8;
    }

    const T* from;
    UnalignedVector unaligned[BUFFERED];
    T* before = nullptr;  // the stage of what is in `unaligned`
    size_t begin, end;
    long long ld, step;
    int rows, left;  // that remain of the slow dimension, and of the fast one, from this thread's
                     // first copy on

    __device__ HalfSide(const T* base, long long ld, int start, int size, int k0, int k1) : ld(ld) {
        int row = threadIdx.x / ALONG, i = threadIdx.x % ALONG * EACH;
        from = base + (KMAJOR ? (start + row) * ld + k0 + i : (k0 + row) * ld + start + i);
        step = KMAJOR ? BK : BK * ld;
        rows = (KMAJOR ? size - start : k1 - k0) - row,
        left = (KMAJOR ? k1 - k0 : size - start) - i;
        begin = reinterpret_cast<size_t>(base);
        end =
            reinterpret_cast<size_t>(base + (KMAJOR ? (size - 1) * ld + k1 : (k1 - 1) * ld + size));
    }
    // One part of a stage: copies between products do not hold them up.
    __device__ void next(T* stage, int part) {
        int first = threadIdx.x / ALONG, i = threadIdx.x % ALONG * EACH;
        T* to_shared = stage + at(first, i);
        int count = min(max(left, 0), EACH);  // the rest is filled with zeros
#pragma unroll
        for (int c = 0; c < COPIES; ++c) {
            if (c * PARTS / COPIES != part) continue;
            if (SIZE / EACH % THREADS && c * THREADS + int(threadIdx.x) >= SIZE / EACH) break;
            const T* source = from + c * APART * ld;
            int there = c * APART < rows ? count : 0;
            if constexpr (UNALIGNED) {
                if (before)
                    *reinterpret_cast<uint4*>(before + at(first + c * APART, i)) =
                        unaligned[c].joined();
                unaligned[c].read(source, there, begin, end);
            } else {
                T* place = APART % (8 * SHARING) ? stage + at(first + c * APART, i)
                                                 : to_shared + c * APART * LENGTH;
                copy_async_part<BYTES>(shared_address(place), source, there * 2);
            }
        }
        if (part == PARTS - 1) before = stage;
    }
    __device__ void advance() {
        from += step;
        (KMAJOR ? left : rows) -= BK;
    }
    // The address of the 16 x 16 elements from (along, k) on, for ldmatrix. `first` is that of the
    // warp's first ones; it is a multiple of 128 bytes but for the chunk, which an exclusive or
    // moves.
    static __device__ unsigned fragment(unsigned first, int along, int k) {
        return KMAJOR ? (first ^ k * 2) + along * LENGTH * 2 : (first ^ along * 2) + k * LENGTH * 2;
    }
};

template <class T, int BM, int BN, int BK, int WM, int WN, int STAGES, bool A_KMAJOR, int ABYTES,
          bool B_KMAJOR, int BBYTES>
struct HalfGemm {
    static constexpr int THREADS = BM / WM * (BN / WN) * 32, DOWN = WM / 16, ACROSS = WN / 8;
    using A = HalfSide<T, BM, BK, THREADS, A_KMAJOR, ABYTES>;
    using B = HalfSide<T, BN, BK, THREADS, B_KMAJOR, BBYTES>;
    static constexpr int STAGE = A::SIZE + B::SIZE;
    static constexpr bool WHOLE = false;  // see HalfPanels
    static_assert(
        STAGES > 2,
        "an unaligned vector is stored a stage later, before the barrier that precedes its use");
    static_assert(ACROSS % 2 == 0 && BK % 32 == 0,
                  "ldmatrix takes 16 columns; fragments are in two sets, in turns");

    float of[DOWN][ACROSS][4];

    static __device__ int first_row() { return threadIdx.x / 32 / (BN / WN) * WM; }
    static __device__ int first_column() { return threadIdx.x / 32 % (BN / WN) * WN; }

    // Sums over k from k0 up to k1.
    __device__ void run(A a_side, B b_side, T* memory, int k0, int k1) {
        int lane = threadIdx.x % 32, quarter = lane / 8, m0 = first_row(), n0 = first_column(),
            into = 0, now = 0;
        // Four matrices of 8 x 8 for an ldmatrix: of A along M first, of B along K first.
        int am = m0 + quarter % 2 * 8, ak = quarter / 2 * 8, bn = n0 + quarter / 2 * 8,
            bk = quarter % 2 * 8;
        unsigned a_first = 2 * (A_KMAJOR ? A::at(am + lane % 8, ak) : A::at(ak + lane % 8, am));
        unsigned b_first =
            2 * (B_KMAJOR ? B::at(bn + lane % 8, bk) : B::at(bk + lane % 8, bn)) + 2 * A::SIZE;
        unsigned a[2][DOWN][4], b[2][ACROSS / 2][4];
#pragma unroll
        for (int i = 0; i < DOWN; ++i)
#pragma unroll
            for (int n = 0; n < ACROSS; ++n)
#pragma unroll
                for (int j = 0; j < 4; ++j) of[i][n][j] = 0;
        constexpr int PARTS = BK / 16;
        auto fetch = [&](int part) {
            a_side.next(memory + into * STAGE, part);
            b_side.next(memory + into * STAGE + A::SIZE, part);
            if (part < PARTS - 1) return;
            a_side.advance(), b_side.advance();
            commit_copies();
            into = into + 1 == STAGES ? 0 : into + 1;
        };
        auto load = [&](int set, int k) {
            unsigned stage = shared_address(memory) + now * STAGE * 2;
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
                load_matrices_x4<!A_KMAJOR>(a[set][i], A::fragment(stage + a_first, i * 16, k));
#pragma unroll
            for (int n = 0; n < ACROSS / 2; ++n)
                load_matrices_x4<!B_KMAJOR>(b[set][n], B::fragment(stage + b_first, n * 16, k));
        };
        auto wait = [&]() {
            wait_copies<STAGES - 2>();
            __syncthreads();
        };
#pragma unroll
        for (int s = 0; s < STAGES - 1; ++s)
#pragma unroll
            for (int part = 0; part < PARTS; ++part) fetch(part);
        wait();
        load(0, 0);
#pragma unroll 1
        for (int tile = (k1 - k0 + BK - 1) / BK; tile > 0; --tile) {
#pragma unroll
            for (int k = 0; k < BK; k += 16) {
                int set = k / 16 % 2;
                // The last part is under way before the wait for the next stage, whose first
                // fragments are read then.
                if (k + 16 == BK) {
                    fetch(PARTS - 1);
                    wait();
                    now = now + 1 == STAGES ? 0 : now + 1;
                }
                load(set ^ 1, (k + 16) % BK);
                if (k + 16 < BK) fetch(k / 16);
#pragma unroll
                for (int i = 0; i < DOWN; ++i)
#pragma unroll
                    for (int n = 0; n < ACROSS; ++n) {
                        int c = i % 2 ? ACROSS - 1 - n
                                      : n;  // there and back: the operand at a turn is used again
                        mma<T>(of[i][c], a[set][i], &b[set][c / 2][c % 2 * 2]);
                    }
            }
        }
        wait_all_copies();
        __syncthreads();
    }
};
