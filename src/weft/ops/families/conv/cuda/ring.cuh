// The loop of the tensor-core kernels: cp.async fills a ring of stages in shared memory, while a
// warp multiplies the stages before.
#pragma once
#include "mma.cuh"
#include "../../matmul/cuda/parts.cuh"

using namespace weft;

// A warp's fragments for products of DOWN x ACROSS tiles of 16 x 8. A stage has PARTS slices along
// the depth; one set of fragments is loaded while the other is multiplied. ROUND_A, ROUND_B: floats
// that have to be rounded to tf32.
//
// AHEAD: the first fragments of a stage are read before the last products of the stage before.
// Warps of 64 x 32 with one tile for each block are 5 % faster without: three blocks of an SM hide
// what one waits for.
//
// `fetch(stage, part)` copies one of PARTS parts of a stage: copies between products do not hold
// them up. `load(a, b, stage, part)` reads the fragments of a slice.
template <class T, int DOWN, int ACROSS, int PARTS, int STAGES, bool ROUND_A, bool ROUND_B,
          bool AHEAD = true>
struct Ring {
    static_assert(PARTS % 2 == 0 && ACROSS % 2 == 0,
                  "sets of fragments take turns; ldmatrix reads 16 columns");
    unsigned a[2][DOWN][4], b[2][ACROSS / 2][4];
    int into = 0, now = 0;  // the stages that are copied and multiplied next

    static __device__ int after(int stage) { return stage + 1 == STAGES ? 0 : stage + 1; }
    template <class Fetch>
    __device__ void copy(Fetch& fetch, int part) {
        fetch(into, part);
        if (part < PARTS - 1) return;
        commit_copies();
        into = after(into);
    }
    template <class Load>
    __device__ void read(Load& load, int set, int part) {
        load(a[set], b[set], now, part);
        if constexpr (ROUND_A)
#pragma unroll
            for (int e = 0; e < DOWN * 4; ++e)
                a[set][e / 4][e % 4] = to_tf32(__uint_as_float(a[set][e / 4][e % 4]));
        if constexpr (ROUND_B)
#pragma unroll
            for (int e = 0; e < ACROSS * 2; ++e)
                b[set][e / 4][e % 4] = to_tf32(__uint_as_float(b[set][e / 4][e % 4]));
    }
    // Fills all stages but one.
    template <class Fetch, class Load>
    __device__ void start(Fetch& fetch, Load& load) {
        for (int s = 0; s < STAGES - 1; ++s)
#pragma unroll
            for (int part = 0; part < PARTS; ++part) copy(fetch, part);
        if constexpr (AHEAD) next(load);
    }
    // Waits for a stage, and reads its first fragments.
    template <class Load>
    __device__ void next(Load& load) {
        wait_copies<STAGES - 2>();
        __syncthreads();
        read(load, 0, 0);
    }
    // Adds the products of `steps` stages.
    template <class Fetch, class Load>
    __device__ void run(float (&of)[DOWN][ACROSS][4], int steps, Fetch& fetch, Load& load) {
#pragma unroll 1
        for (; steps > 0; --steps) {
            if constexpr (!AHEAD) next(load);
#pragma unroll
            for (int k = 0; k < PARTS; ++k) {
                bool last = k == PARTS - 1;
                if (!last) read(load, (k + 1) % 2, k + 1);
                copy(fetch, k);
                if (last) now = after(now);
                if (AHEAD && last) next(load);
#pragma unroll
                for (int i = 0; i < DOWN; ++i)
#pragma unroll
                    for (int n = 0; n < ACROSS; ++n) {
                        int c = i % 2 ? ACROSS - 1 - n
                                      : n;  // there and back: the operand at a turn is used again
                        mma<T>(of[i][c], a[k % 2][i], b[k % 2][c / 2] + c % 2 * 2);
                    }
            }
        }
    }
    // After it shared memory is free.
    static __device__ void finish() {
        wait_all_copies();
        __syncthreads();
    }
};

// The steps of all tiles in a row, cut into ranges of `each` for the blocks of a launch: a block
// has the end of a tile, whole tiles and the beginning of another. Blocks are numbered along x,
// results along z.
struct Ranges {
    int steps, each;  // steps of a tile

    // Adds the parts of a tile. Each of its blocks stores its sums in `parts`, and the last one to
    // come here adds them in order: results do not depend on which block comes last. True for that
    // block. A block is in the midst of two tiles at most: `parts` are [result][block][0: without
    // the beginning of its tile, 1: with it][place of a thread's four results][thread].
    template <int THREADS, int COUNT>
    __device__ bool join(float (&of)[COUNT], float* parts, int* counters, int tile) const {
        constexpr int FOURS = COUNT / 4;
        int first = tile * steps / each, last = ((tile + 1) * steps - 1) / each,
            before = blockIdx.z * gridDim.x;
        auto place = [&](int block) {
            long long slot = (before + block) * 2ll + (block == first);
            return reinterpret_cast<float4*>(parts) + slot * FOURS * THREADS + threadIdx.x;
        };
        store_part<THREADS>(place(blockIdx.x), of);
        if (!is_last_block(counters + before + first, last - first + 1)) return false;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) of[i] = 0;
        for (int block = first; block <= last; ++block) add_part<THREADS>(of, place(block));
        return true;
    }
};

// What a block of windows sums: the steps of one tile, or with STREAM_K a range of the steps of all
// tiles, one tile after the other.
template <bool STREAM_K>
struct TileSteps {
    int steps, each, tile, from,
        left;  // steps of a tile; the first step of this one, and those that are left

    __device__ TileSteps(int tiles, int steps, int each) : steps(steps), each(each) {
        int begin = STREAM_K ? blockIdx.x * each : 0;
        left = STREAM_K ? min(each, tiles * steps - begin) : steps;
        tile = STREAM_K ? begin / steps : blockIdx.x, from = STREAM_K ? begin - tile * steps : 0;
    }
    // Sums them by `ring`. `write(of, tile)` writes the sums of a tile; with STREAM_K the copies
    // for the next one are under way meanwhile.
    template <int THREADS, class T, int DOWN, int ACROSS, int PARTS, int STAGES, bool ROUND_A,
              bool ROUND_B, bool AHEAD, class Fetch, class Load, class Write>
    __device__ void run(Ring<T, DOWN, ACROSS, PARTS, STAGES, ROUND_A, ROUND_B, AHEAD>& ring,
                        Fetch& fetch, Load& load, float* parts, int* counters, Write& write) {
        ring.start(fetch, load);
#pragma unroll 1
        do {
            float of[DOWN][ACROSS][4] = {};
            int count = STREAM_K ? min(left, steps - from) : steps;
            ring.run(of, count, fetch, load);
            if (!STREAM_K) ring.finish();
            Ranges ranges = {steps, each};
            if (!STREAM_K || count == steps ||
                ranges.join<THREADS>(reinterpret_cast<float (&)[DOWN * ACROSS * 4]>(of), parts,
                                     counters, tile))
                write(of, tile);
            left -= count, from = 0, ++tile;
        } while (STREAM_K && left > 0);
        if (STREAM_K) wait_all_copies();
    }
};

// What a block of a gradient of weights sums: some steps of one tile, as part `split` of its depth,
// or with `share` a range of the steps of all tiles, one tile after the other.
struct Portion {
    int steps, each, split, tile, from,
        left;  // steps of a tile; the first step of this one, and those that are left

    __device__ Portion(int tiles, int steps, int each, bool share) : steps(steps), each(each) {
        int begin = blockIdx.x * each;
        split = share ? 0 : blockIdx.x / tiles,
        tile = share ? begin / steps : blockIdx.x - split * tiles;
        from = share ? begin - tile * steps : split * each;
        left = min(each, share ? tiles * steps - begin : steps - from);
    }
    __device__ int count() const { return min(left, steps - from); }
    __device__ bool whole() const { return from == 0 && left >= steps; }
    __device__ Ranges ranges() const { return {steps, each}; }
    __device__ void next() { left -= count(), from = 0, ++tile; }

    // Sums this block's steps of the tile by `ring`. False if other blocks have some of them, and
    // one of these writes the sums.
    template <int THREADS, bool STREAM_K, int DOWN, int ACROSS, class Ring, class Fetch, class Load>
    __device__ bool sum(float (&of)[DOWN][ACROSS][4], Ring& ring, Fetch& fetch, Load& load,
                        float* parts, int* counters) const {
        ring.start(fetch, load);
        ring.run(of, count(), fetch, load);
        ring.finish();
        return !STREAM_K || whole() ||
               ranges().join<THREADS>(reinterpret_cast<float (&)[DOWN * ACROSS * 4]>(of), parts,
                                      counters, tile);
    }
};
