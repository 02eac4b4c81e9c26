// Tiles of a matrix product of 16-bit elements by warpgroups: two of them multiply what is copied
// into a ring of stages in shared memory, 64 of K at a time. The copies are cp.async of 16 bytes,
// so operands need no tensor maps; their rows begin at multiples of 16 bytes.
#pragma once
#include "../../attention/cuda/warpgroup.cuh"

// multiply_shared<A_TURN, B_TURN>(c, a, b, fresh) is a product of 64 rows and 8 N columns over 16
// elements, as multiply of warpgroup.cuh, for operands that are contiguous along K, or (TRANSPOSE)
// along M or N.
#if HAS_WARPGROUPS
#define WEFT_L9 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define WEFT_L10 ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define WEFT_A128 WEFT_A80 WEFT_L7 WEFT_L8 WEFT_L9 WEFT_L10
#define WEFT_128 WEFT_96, WEFT_8(24), WEFT_8(26), WEFT_8(28), WEFT_8(30)
#define WEFT_TRANSPOSED(WIDTH, TYPE, CLASS, LIST, FLOATS, R0, R1, R2, R3, R4)                   \
    template <bool A_TURN, bool B_TURN>                                                         \
    __device__ void multiply_shared(float (&c)[WIDTH / 8][4], unsigned long long a,             \
                                    unsigned long long b, bool fresh, CLASS) {                  \
        asm volatile(WEFT_WGMMA(WIDTH, TYPE, LIST, R0, R1, R2, R3 ", " R4)                      \
                     : WEFT_ALL FLOATS                                                          \
                     : "l"(a), "l"(b), "r"(fresh ? 0 : 1), "n"(int(A_TURN)), "n"(int(B_TURN))); \
    }
#define WEFT_TRANSPOSED_BOTH(WIDTH, LIST, FLOATS, ...)               \
    WEFT_TRANSPOSED(WIDTH, "f16", __half, LIST, FLOATS, __VA_ARGS__) \
    WEFT_TRANSPOSED(WIDTH, "bf16", __nv_bfloat16, LIST, FLOATS, __VA_ARGS__)
WEFT_TRANSPOSED_BOTH(16, WEFT_A8, (WEFT_8(0)), "%8", "%9", "%10", "%11", "%12")
WEFT_TRANSPOSED_BOTH(32, WEFT_L0, (WEFT_16), "%16", "%17", "%18", "%19", "%20")
WEFT_TRANSPOSED_BOTH(64, WEFT_A32, (WEFT_32), "%32", "%33", "%34", "%35", "%36")
WEFT_TRANSPOSED_BOTH(128, WEFT_A64, (WEFT_64), "%64", "%65", "%66", "%67", "%68")
WEFT_TRANSPOSED_BOTH(256, WEFT_A128, (WEFT_128), "%128", "%129", "%130", "%131", "%132")
#else
template <bool A_TURN, bool B_TURN, int N, class T>
__device__ void multiply_shared(float (&c)[N][4], unsigned long long a, unsigned long long b,
                                bool fresh, T) {
    int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    if (fresh) memset(c, 0, sizeof c);
    multiply_all<T>(c, N,
                    {two(a, row, 2 * q, A_TURN), two(a, row + 8, 2 * q, A_TURN),
                     two(a, row, 2 * q + 8, A_TURN), two(a, row + 8, 2 * q + 8, A_TURN)},
                    b, B_TURN);
}
#endif

// One operand of a stage: B elements along M or N, and 64 of K. KMAJOR: K is contiguous in memory,
// and a slab has B rows of 64 of K; else slabs have 64 rows of K, and 64 elements along M or N.
// THREADS copy it.
template <class T, int B, int THREADS, bool KMAJOR>
struct WarpgroupSide {
    static constexpr bool TRANSPOSE = !KMAJOR;
    static constexpr int BYTES = B * 128, ACROSS = KMAJOR ? 8 : B / 8, DOWN = THREADS / ACROSS,
                         COPIES = B * 8 / THREADS;

    const T* from;
    long long ld;
    int row, column, rows,
        columns;  // of this thread's first copy; what remains of the operand from there on

    __device__ WarpgroupSide(const T* base, long long ld, int start, int size, int depth,
                             int thread)
        : ld(ld) {
        row = thread / ACROSS, column = thread % ACROSS * 8;
        from = base + (KMAJOR ? (start + row) * ld + column : row * ld + start + column);
        rows = (KMAJOR ? size - start : depth) - row,
        columns = (KMAJOR ? depth : size - start) - column;
    }
    // Copies the next 64 of K; what is outside of the operand is zero.
    __device__ void next(unsigned tile) {
        int bytes = 2 * min(max(columns, 0), 8);
        const T* source = from;
#pragma unroll
        for (int i = 0; i < COPIES; ++i, source += DOWN * ld) {
            int r = row + i * DOWN;
            unsigned place =
                tile + column / 64 * slab(64) + r * 128 + (column / 8 % 8 ^ r % 8) * 16;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(source),
                         "r"(i * DOWN < rows ? bytes : 0)
                         : "memory");  // an address outside is not read
        }
        from += KMAJOR ? 64 : 64 * ld;
        (KMAJOR ? columns : rows) -= 64;
    }
    // The descriptor of elements from `along`, a multiple of 64, and k, a multiple of 16, on.
    static __device__ unsigned long long operand(unsigned tile, int along, int k) {
        return KMAJOR ? rows_at(tile + along * 128 + k * 2)
                      : columns_at<64>(tile + along * 128 + k * 128);
    }
};

// Has the members of HalfGemm that the end of a tile needs. A warpgroup has 64 rows of the tile's
// 128, and a warp 16. The sides of a product are like WarpgroupSide.
template <class T, int BN, int STAGES, class SideA, class SideB>
struct WarpgroupTile {
    static constexpr int BM = 128, DOWN = 1, ACROSS = BN / 8;
    using A = SideA;
    using B = SideB;
    static constexpr int STAGE = A::BYTES + B::BYTES;

    float of[DOWN][ACROSS][4];

    static __device__ int first_row() { return threadIdx.x / 32 * 16; }
    static __device__ int first_column() { return 0; }

    __device__ void multiply_stage(unsigned tile, bool fresh) {
        int warpgroup = threadIdx.x / 128;
        products_begin();
#pragma unroll
        for (int k = 0; k < 64; k += 16)
            multiply_shared<A::TRANSPOSE, B::TRANSPOSE>(of[0], A::operand(tile, warpgroup * 64, k),
                                                        B::operand(tile + A::BYTES, 0, k),
                                                        fresh && k == 0, T());
        products_end();
    }
    __device__ void finish_products() {
        products_wait<0>();
        pin(of[0]);
    }

    // ---- a third warpgroup copies ----
    static __device__ void copy(A a, B b, unsigned ring, Barrier* full, Barrier* empty, int steps) {
        int stage = 0, parity = 1;  // the phase before the first one counts as complete
#pragma unroll 1
        for (; steps > 0; --steps) {
            wait_for(empty + stage, parity);
            a.next(ring + stage * STAGE);
            b.next(ring + stage * STAGE + A::BYTES);
            arrive_with_copies(full + stage);
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
        wait<0>();
    }
    // Products of one step are under way while the next ones are issued; then the stage before is
    // free.
    __device__ void consume(unsigned ring, Barrier* full, Barrier* empty, int steps) {
        int stage = 0, parity = 0;
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
            wait_for(full + stage, parity);
            publish();
            multiply_stage(ring + stage * STAGE, step == 0);
            products_wait<1>();
            if (step && threadIdx.x % 32 == 0) arrive(empty + (stage ? stage : STAGES) - 1);
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
        finish_products();
    }

    // ---- both copy ----
    // The copies of a later step are issued while the products of this one are under way; they
    // replace the step before, whose products all threads have waited for. Another block of the SM
    // covers these waits.
    __device__ void run(A a, B b, unsigned ring, int steps) {
        int stage = 0, into = STAGES - 1;
        auto fetch = [&](int to, bool more) {
            if (more) a.next(ring + to * STAGE), b.next(ring + to * STAGE + A::BYTES);
            commit();
        };
        for (int s = 0; s < STAGES - 1; ++s) fetch(s, s < steps);
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
            wait<STAGES - 2>();
            publish();
            finish_products();
            __syncthreads();
            multiply_stage(ring + stage * STAGE, step == 0);
            fetch(into, step + STAGES - 1 < steps);
            into = stage;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
        finish_products();
        wait<0>();
    }

    // The whole product, of sides that a() and b() make. With PRODUCER, a third warpgroup copies,
    // with COPYING registers for a thread, and the others have COMPUTING; else both copy. False for
    // threads that have no results.
    template <bool PRODUCER, int COPYING, int COMPUTING, class MakeA, class MakeB>
    __device__ __forceinline__ bool multiply(const MakeA& a, const MakeB& b, unsigned ring,
                                             int steps) {
        if constexpr (PRODUCER) {
            __shared__ Barrier full[STAGES], empty[STAGES];
            if (threadIdx.x == 0)
                for (int i = 0; i < STAGES; ++i)
                    create(full + i, 128), create(empty + i, 8);  // a warp arrives once
            __syncthreads();
            if (__shfl_sync(~0u, threadIdx.x / 128, 0) == 2) {
                fewer_registers<COPYING>();
                copy(a(), b(), ring, full, empty, steps);
                return false;
            }
            more_registers<COMPUTING>();
            consume(ring, full, empty, steps);
        } else {
            run(a(), b(), ring, steps);
        }
        return true;
    }
};

// The product of two matrices. THREADS: of a third warpgroup, which copies, or all of the two.
template <class T, int BN, int STAGES, int THREADS, bool A_KMAJOR, bool B_KMAJOR>
using HalfWarpgroups = WarpgroupTile<T, BN, STAGES, WarpgroupSide<T, 128, THREADS, A_KMAJOR>,
                                     WarpgroupSide<T, BN, THREADS, B_KMAJOR>>;
