// A tile of a product of 16-bit elements whose rows may begin at any element: they are read in
// aligned vectors and shifted on the way to shared memory. Panels of both operands are there at
// once, DEPTH of K, which is all of it if K is short: there is no ring of stages, and the blocks of
// an SM cover each other's waits.
#pragma once
#include "half.cuh"

// One operand: B elements along M or N, and DEPTH along K for a panel. KMAJOR: K is contiguous in
// memory.
template <class T, int B, int DEPTH, int THREADS, bool KMAJOR>
struct UnalignedSide {
    static constexpr int LENGTH = KMAJOR ? DEPTH : B, ROWS = KMAJOR ? B : DEPTH,
                         CHUNKS = LENGTH / 8;  // chunks of 16 bytes
    static constexpr int PITCH =
        LENGTH + 8;  // an odd number of chunks: eight rows are in different banks
    static constexpr int SIZE = ROWS * PITCH,
                         APART = THREADS / CHUNKS;  // a thread stays in its column
    static constexpr int COPIES = (ROWS + APART - 1) / APART, BUFFERED = COPIES < 4 ? COPIES : 4;
    static_assert(DEPTH % 16 == 0 && B % 16 == 0,
                  "a product takes 16 of K, and ldmatrix 16 along M or N");

    const T* base;
    long long ld;
    int start, size, k1;

    __device__ UnalignedSide(const T* base, long long ld, int start, int size, int, int k1)
        : base(base), ld(ld), start(start), size(size), k1(k1) {}

    __device__ const T* element(int along, int k) const {
        return base + (KMAJOR ? along * ld + k : k * ld + along);
    }

    // Copies the panel from k0 on; what is outside of the operand is zero.
    __device__ void fill(T* panel, int k0) const {
        size_t begin = reinterpret_cast<size_t>(base),
               end = reinterpret_cast<size_t>(element(size - 1, k1 - 1) + 1);
        size_t first = reinterpret_cast<size_t>(element(start, k0));
        size_t last = reinterpret_cast<size_t>(
            element(min(size, start + B) - 1, min(k1, k0 + DEPTH) - 1) + 1);
        if ((begin % 16 == 0 || first >= begin + 14) && last + 14 <= end)
            copy(panel, k0, [](UnalignedVector& buffered, const T* from, int count) {
                buffered.read(from, count);
            });
        else  // a vector with the first or the last element of the operand may have others of no
              // array
            copy(panel, k0, [&](UnalignedVector& buffered, const T* from, int count) {
                buffered.read(from, count, begin, end);
            });
    }
    // Few chunks wait in registers at a time: code that is executed once for a tile is short, as it
    // waits for its fetch.
    template <class Read>
    __device__ void copy(T* panel, int k0, Read read) const {
        int row = threadIdx.x / CHUNKS, i = threadIdx.x % CHUNKS * 8;
        if (THREADS % CHUNKS && row >= APART) return;
        int rows = min(ROWS, KMAJOR ? size - start : k1 - k0) - row,
            count = min(8, (KMAJOR ? k1 - k0 : size - start) - i);
        uint4 mask = UnalignedVector::mask_of(count);
        const T* from = element(start, k0) + row * ld + i;
        T* to_row = panel + row * PITCH + i;
#pragma unroll 1
        for (int c = 0; c < COPIES; c += BUFFERED) {
            UnalignedVector buffered[BUFFERED];
#pragma unroll
            for (int j = 0; j < BUFFERED; ++j, from += APART * ld)
                read(buffered[j], from, (c + j) * APART < rows ? count : 0);
#pragma unroll
            for (int j = 0; j < BUFFERED; ++j, to_row += APART * PITCH)
                if ((c + j) * APART + row < ROWS)
                    *reinterpret_cast<uint4*>(to_row) = buffered[j].masked(mask);
        }
    }
    static __device__ int at(int along, int k) {
        return KMAJOR ? along * PITCH + k : k * PITCH + along;
    }
};

// Has the members of HalfGemm that the end of a tile needs.
template <class T, int BM, int BN, int DEPTH, int WM, int WN, bool A_KMAJOR, bool B_KMAJOR>
struct HalfUnaligned {
    static constexpr int THREADS = BM / WM * (BN / WN) * 32, DOWN = WM / 16, ACROSS = WN / 8;
    using A = UnalignedSide<T, BM, DEPTH, THREADS, A_KMAJOR>;
    using B = UnalignedSide<T, BN, DEPTH, THREADS, B_KMAJOR>;
    static_assert(ACROSS % 2 == 0, "ldmatrix takes 16 columns");

    float of[DOWN][ACROSS][4];

    static __device__ int first_row() { return threadIdx.x / 32 / (BN / WN) * WM; }
    static __device__ int first_column() { return threadIdx.x / 32 % (BN / WN) * WN; }

    // Sums over k from k0 up to k1.
    __device__ void run(const A& a_side, const B& b_side, T* memory, int k0, int k1) {
#pragma unroll
        for (int i = 0; i < DOWN; ++i)
#pragma unroll
            for (int n = 0; n < ACROSS; ++n)
#pragma unroll
                for (int j = 0; j < 4; ++j) of[i][n][j] = 0;
        int lane = threadIdx.x % 32, quarter = lane / 8;
        // Four matrices of 8 x 8 for an ldmatrix: of A along M first, of B along K first. A row of
        // one is 8 of K where K is contiguous, else 8 of M or N.
        int am = quarter % 2 * 8, ak = quarter / 2 * 8, bn = quarter / 2 * 8, bk = quarter % 2 * 8,
            r = lane % 8;
        unsigned a_first = shared_address(
            memory + A::at(first_row() + am + (A_KMAJOR ? r : 0), ak + (A_KMAJOR ? 0 : r)));
        unsigned b_first = shared_address(
            memory + A::SIZE +
            B::at(first_column() + bn + (B_KMAJOR ? r : 0), bk + (B_KMAJOR ? 0 : r)));
#pragma unroll 1
        for (; k0 < k1; k0 += DEPTH) {
            a_side.fill(memory, k0);
            b_side.fill(memory + A::SIZE, k0);
            __syncthreads();
#pragma unroll 2
            for (int k = 0; k < DEPTH; k += 16) {
                unsigned a[DOWN][4], b[ACROSS / 2][4];
#pragma unroll
                for (int i = 0; i < DOWN; ++i)
                    load_matrices_x4<!A_KMAJOR>(a[i], a_first + 2 * A::at(i * 16, k));
#pragma unroll
                for (int n = 0; n < ACROSS / 2; ++n)
                    load_matrices_x4<!B_KMAJOR>(b[n], b_first + 2 * B::at(n * 16, k));
#pragma unroll
                for (int i = 0; i < DOWN; ++i)
#pragma unroll
                    for (int n = 0; n < ACROSS; ++n) mma<T>(of[i][n], a[i], &b[n / 2][n % 2 * 2]);
            }
            __syncthreads();  // all have read the panels: others, or the results, take their place
        }
    }
};
