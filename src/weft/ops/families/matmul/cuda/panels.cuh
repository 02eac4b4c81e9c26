// A tile of a product of 16-bit elements. Panels of both operands are in shared memory at once,
// DEPTH of K, which is all of it if K is short: there is no ring of stages, and the blocks of an SM
// cover each other's waits. Rows are copied by 16 bytes, or begin at any element: then they are
// read in aligned vectors and shifted on the way to shared memory.
#pragma once
#include "half.cuh"

// A panel of one operand in shared memory: B elements along M or N, and DEPTH along K. KMAJOR: K is
// contiguous in memory.
template <int B, int DEPTH, int THREADS, bool KMAJOR>
struct Panel {
    static constexpr int LENGTH = KMAJOR ? DEPTH : B, ROWS = KMAJOR ? B : DEPTH,
                         CHUNKS = LENGTH / 8;  // chunks of 16 bytes
    static constexpr int PITCH =
        LENGTH + 8;  // an odd number of chunks: eight rows are in different banks
    static constexpr int SIZE = ROWS * PITCH,
                         APART = THREADS / CHUNKS;  // a thread stays in its column
    static constexpr int COPIES = (ROWS + APART - 1) / APART;
    static_assert(DEPTH % 16 == 0 && B % 16 == 0,
                  "a product takes 16 of K, and ldmatrix 16 along M or N");

    static __device__ int at(int along, int k) {
        return KMAJOR ? along * PITCH + k : k * PITCH + along;
    }
};

// An operand whose rows begin at any element.
template <class T, int B, int DEPTH, int THREADS, bool KMAJOR, bool ALIGNED>
struct PanelSide : Panel<B, DEPTH, THREADS, KMAJOR> {
    using P = Panel<B, DEPTH, THREADS, KMAJOR>;
    static constexpr int CHUNKS = P::CHUNKS, PITCH = P::PITCH, ROWS = P::ROWS, APART = P::APART,
                         COPIES = P::COPIES, BUFFERED = COPIES < 4 ? COPIES : 4;

    const T* base;
    long long ld;
    int start, size, k1;

    __device__ PanelSide(const T* base, long long ld, int start, int size, int, int k1)
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
        uint4 mask = UnalignedVector::mask_of(2 * count);
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
};

// An operand whose rows begin at multiples of 16 bytes, and whose panel has the whole K.
template <class T, int B, int DEPTH, int THREADS, bool KMAJOR>
struct PanelSide<T, B, DEPTH, THREADS, KMAJOR, true> : Panel<B, DEPTH, THREADS, KMAJOR> {
    using P = Panel<B, DEPTH, THREADS, KMAJOR>;
    static constexpr int CHUNKS = P::CHUNKS, PITCH = P::PITCH, APART = P::APART;

    const T* from;  // what this thread copies first
    long long ld;
    int row, i, rows, bytes;  // of its copies: the first row, the chunk, rows that are left

    __device__ PanelSide(const T* base, long long ld, int start, int size, int, int k1)
        : ld(ld), row(threadIdx.x / CHUNKS), i(threadIdx.x % CHUNKS * 8) {
        from = base + (KMAJOR ? start * ld : start) + row * ld + i;
        rows = (KMAJOR ? size - start : k1) - row;
        bytes = 2 * max(0, min(8, (KMAJOR ? k1 : size - start) - i));
    }
    // Copies the panel; what is outside of the operand is zero. All copies are on their way at
    // once.
    __device__ void fill(T* panel) const {
        if (THREADS % CHUNKS && row >= APART) return;
        unsigned to_row = shared_address(panel + row * PITCH + i);
#pragma unroll
        for (int c = 0; c < P::COPIES; ++c)
            if (c * APART + row < P::ROWS)
                copy_async_part<16>(to_row + c * APART * PITCH * 2, from + c * APART * ld,
                                    c * APART < rows ? bytes : 0);
    }
};

// Has the members of HalfGemm that the end of a tile needs. ALIGNED: one panel has the whole K.
template <class T, int BM, int BN, int DEPTH, int WM, int WN, bool A_KMAJOR, bool B_KMAJOR,
          bool ALIGNED>
struct HalfPanels {
    static constexpr int THREADS = BM / WM * (BN / WN) * 32, DOWN = WM / 16, ACROSS = WN / 8;
    using A = PanelSide<T, BM, DEPTH, THREADS, A_KMAJOR, ALIGNED>;
    using B = PanelSide<T, BN, DEPTH, THREADS, B_KMAJOR, ALIGNED>;
    static constexpr bool WHOLE = ALIGNED;
    static constexpr int AHEAD = WHOLE ? 4 : 2;  // steps whose fragments are loaded together
    static_assert(ACROSS % 2 == 0, "ldmatrix takes 16 columns");

    float of[DOWN][ACROSS][4] = {};

    static __device__ int first_row() { return threadIdx.x / 32 / (BN / WN) * WM; }
    static __device__ int first_column() { return threadIdx.x / 32 % (BN / WN) * WN; }

    // Sums over k from k0 up to k1.
    __device__ void run(const A& a_side, const B& b_side, T* memory, int k0, int k1) {
#pragma unroll 1
        for (; k0 < k1; k0 += DEPTH) {
            a_side.fill(memory, k0);
            b_side.fill(memory + A::SIZE, k0);
            __syncthreads();
            multiply(memory);
            __syncthreads();  // all have read the panels: others, or the results, take their place
        }
    }
    // The same for one panel of aligned rows; `meanwhile` is called while the copies are on their
    // way.
    template <class Meanwhile>
    __device__ void run_whole(const A& a_side, const B& b_side, T* memory, Meanwhile meanwhile) {
        a_side.fill(memory);
        b_side.fill(memory + A::SIZE);
        meanwhile();
        wait_all_copies();
        __syncthreads();
        multiply(memory);
        __syncthreads();  // all have read the panels: the results take their place
    }
    __device__ void multiply(const T* memory) {
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
#pragma unroll AHEAD
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
    }
};
