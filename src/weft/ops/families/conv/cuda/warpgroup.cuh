// Tiles of a matrix product of 16-bit elements by warpgroups: two of them multiply what is copied
// into a ring of stages in shared memory, 64 of K at a time. The copies are cp.async of 16 bytes,
// so operands need no tensor maps; their rows begin at multiples of 16 bytes.
#pragma once
#include <weft/barrier.cuh>
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/wgmma.cuh>

using namespace weft;

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
            unsigned place = tile + column / 64 * slab_bytes(64) + swizzle<128>(r, column / 8 % 8);
            // An address outside is not read.
            copy_async_part<16>(place, source, i * DOWN < rows ? bytes : 0);
        }
        from += KMAJOR ? 64 : 64 * ld;
        (KMAJOR ? columns : rows) -= 64;
    }
    // The descriptor of elements from `along`, a multiple of 64, and k, a multiple of 16, on.
    static __device__ unsigned long long operand(unsigned tile, int along, int k) {
        return KMAJOR ? wgmma_rows(tile + along * 128 + k * 2)
                      : wgmma_columns<64>(tile + along * 128 + k * 128);
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
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < 64; k += 16)
            wgmma<T, A::TRANSPOSE, B::TRANSPOSE>(of[0], A::operand(tile, warpgroup * 64, k),
                                                 B::operand(tile + A::BYTES, 0, k),
                                                 !fresh || k > 0);
        wgmma_commit();
    }
    __device__ void finish_products() {
        wgmma_wait<0>();
        wgmma_results(of[0]);
    }

    // ---- a third warpgroup copies ----
    static __device__ void copy(A a, B b, unsigned ring, Barrier* full, Barrier* empty, int steps) {
        int stage = 0, parity = 1;  // the phase before the first one counts as complete
#pragma unroll 1
        for (; steps > 0; --steps) {
            empty[stage].wait(parity);
            a.next(ring + stage * STAGE);
            b.next(ring + stage * STAGE + A::BYTES);
            full[stage].arrive_after_copies();
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
        wait_copies<0>();
    }
    // Products of one step are under way while the next ones are issued; then the stage before is
    // free.
    __device__ void consume(unsigned ring, Barrier* full, Barrier* empty, int steps) {
        int stage = 0, parity = 0;
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
            full[stage].wait(parity);
            publish_tiles();
            multiply_stage(ring + stage * STAGE, step == 0);
            wgmma_wait<1>();
            if (step && threadIdx.x % 32 == 0) empty[(stage ? stage : STAGES) - 1].arrive();
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
            commit_copies();
        };
        for (int s = 0; s < STAGES - 1; ++s) fetch(s, s < steps);
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
            wait_copies<STAGES - 2>();
            publish_tiles();
            finish_products();
            __syncthreads();
            multiply_stage(ring + stage * STAGE, step == 0);
            fetch(into, step + STAGES - 1 < steps);
            into = stage;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
        finish_products();
        wait_copies<0>();
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
                    full[i].init(128), empty[i].init(8);  // a warp arrives once
            __syncthreads();
            if (warpgroup_index() == 2) {
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
