// Products of fp8 on Hopper: C = (A scale_a) (B scale_b) + bias, with scales of whole operands, of
// rows of A and columns of B, or of blocks of 128 of K.
#include "k_major.cuh"
#include "pipelined.cu"

// Sums. FAST: those of all K by the tensor cores, which keep 13 bits below the largest term.
// PARTS: those of each 128 of K are added in single precision. BLOCKS: so are they, after each
// has been multiplied by its scales.
enum ScaledSums { FAST, PARTS, BLOCKS };

STRUCT_SCALES;  // see scaled.py

// Results times the scales of their rows and columns. EACH: `columns` has one for each column,
// else one for all of them.
template <bool EACH, int N>
__device__ void add_scaled(float (&sums)[N][4], const float (&of)[N][4], const float (&rows)[2],
                           const float* columns) {
    Vector<float, 2> scale = {EACH ? 1 : columns[0], EACH ? 1 : columns[0]};
#pragma unroll
    for (int n = 0; n < N; ++n) {
        if (EACH) scale = load<2>(columns + n * 8 + c_column(0));
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[n][i] += of[n][i] * (rows[i / 2] * scale[i % 2]);
    }
}

// The scales of all K for a warp's part of a tile: they are fetched before the products.
template <int COLUMNS, bool EACH>
struct TileScales {
    static constexpr int OF_LANE = EACH ? ceil_div(COLUMNS, 32) : 1;

    float of_rows[2], of_columns[OF_LANE];

    __device__ void fetch(const float* a, const float* b, const Scales& s, const Problem& p, int r0,
                          int c0) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int row = r0 + c_row(i * 2);
            of_rows[i] = row < p.M ? a[(row >> s.rows) * s.row_a] : 0;
        }
#pragma unroll
        for (int i = 0; i < OF_LANE; ++i) {
            int column = c0 + (EACH ? i * 32 + lane_index() : 0);
            of_columns[i] = column < p.N ? b[(column >> s.columns) * s.column_b] : 0;
        }
    }
    // Multiplies results by them; `mine` is shared memory of the warp, COLUMNS floats.
    template <int N>
    __device__ void multiply(float (&of)[N][4], float* mine) const {
        const float* columns = of_columns;
        if constexpr (EACH) {
            __syncwarp();  // those of the tile before have been read
#pragma unroll
            for (int i = 0; i < OF_LANE; ++i)
                if (i * 32 + lane_index() < COLUMNS) mine[i * 32 + lane_index()] = of_columns[i];
            __syncwarp();
            columns = mine;
        }
        float sums[N][4];
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[n][i] = -0.0f;
        add_scaled<EACH>(sums, of, of_rows, columns);
        memcpy(of, sums, sizeof of);
    }
};

// The scales of a stage in shared memory, for BLOCKS: those of its rows, then of its columns. A
// warp of its own copies them: the thread that copies operands would be late.
template <int BM, int BN, bool EACH>
struct StageScales {
    static constexpr int COLUMNS = EACH ? BN : 4, COUNT = BM + COLUMNS;
    static constexpr int OF_A = BM / 32, OF_B = EACH ? ceil_div(BN, 32) : 1;

    // Fills `steps` stages with those of blocks from `k` on, for the rows from r0 and the columns
    // from c0 on.
    template <class Ring, class Turn>
    static __device__ void fill(float* scales, Ring& stages, Turn& turn, const float* a,
                                const float* b, const Scales& s, const Problem& p, int r0, int c0,
                                int k, int steps) {
        int lane = lane_index(), of_a[OF_A], of_b[OF_B];
        a += k * s.k_a, b += k * s.k_b;
#pragma unroll
        for (int i = 0; i < OF_A; ++i)
            of_a[i] = (min(r0 + i * 32 + lane, p.M - 1) >> s.rows) * int(s.row_a);
#pragma unroll
        for (int i = 0; i < OF_B; ++i)
            of_b[i] = (min(c0 + i * 32 + lane, p.N - 1) >> s.columns) * int(s.column_b);
#pragma unroll 1
        for (; steps > 0; --steps, a += s.k_a, b += s.k_b, turn.next()) {
            float* to = scales + turn.stage * COUNT + lane;
            stages.wait_empty(turn);
#pragma unroll
            for (int i = 0; i < OF_A; ++i) copy_async<4>(to + i * 32, a + of_a[i]);
#pragma unroll
            for (int i = 0; i < OF_B; ++i)
                if (i * 32 + lane < (EACH ? BN : 1)) copy_async<4>(to + BM + i * 32, b + of_b[i]);
            stages.full[turn.stage].arrive_after_copies();
        }
    }
};

// A tile whose sums of each step of K are added to others in single precision. The products of
// other warpgroups cover the additions. Two steps at a time were slower, and so was one half of a
// tile beside the sums of the other.
template <class E, int BM, int BN, int STAGES, int SUMS, bool EACH>
struct TileInParts : PipelinedTile<E, BM, BN, STAGES, true, true> {
    using G = PipelinedTile<E, BM, BN, STAGES, true, true>;
    using Of = StageScales<BM, BN, EACH>;

    // Products of `steps` steps; their sums are in `of` then. `scales` has those of all stages.
    template <class Ring>
    __device__ void multiply_parts(unsigned ring, Ring& stages, int consumer, int steps,
                                   const float* scales) {
        float sums[G::ACROSS][4] = {};
#pragma unroll 1
        for (; steps > 0; --steps, this->turn.next()) {
            int stage = this->turn.stage;
            const float *columns = scales + stage * Of::COUNT + BM,
                        *rows = columns - BM + warp_index() * 16;
            stages.wait_full(this->turn);
            this->multiply_stage(ring + stage * G::STAGE, consumer, true);
            float of_rows[2];
            if constexpr (SUMS == BLOCKS) of_rows[0] = rows[c_row(0)], of_rows[1] = rows[c_row(2)];
            wgmma_wait<0>();
            wgmma_results(this->of[0]);
            if constexpr (SUMS == BLOCKS) {
                add_scaled<EACH>(sums, this->of[0], of_rows, columns);
                __syncwarp();
                G::release(stages, stage);
            } else {
                G::release(stages, stage);
#pragma unroll
                for (int n = 0; n < G::ACROSS; ++n)
#pragma unroll
                    for (int i = 0; i < 4; ++i) sums[n][i] += this->of[0][n][i];
            }
        }
        memcpy(this->of[0], sums, sizeof sums);
    }
};

// As multiply_tiles of pipelined.cu, for operands E = Fp8<...> and results T. EACH: columns of a
// tile differ in their scales.
template <class E, class T, int BM, int BN, int STAGES, int RESIDENT, int SPLITS, int SUMS,
          bool EACH, bool TRANSPOSED, bool WHOLE, int BIAS>
__device__ void multiply_scaled(const OperandMaps& A, const OperandMaps& B, const float* scale_a,
                                const float* scale_b, const T* bias, T* C, const Scales& s,
                                const Problem& p) {
    using G = TileInParts<E, BM, BN, STAGES, SUMS, EACH>;
    using Results = ResultStore<T, TRANSPOSED, WHOLE, 0, RESIDENT == 1 && BM <= 192 ? 64 : 32>;
    using R = Registers<BM / 16 + (RESIDENT == 1 ? 4 : 1), RESIDENT>;
    constexpr int THREADS = BM * 2, COPYING = SUMS == BLOCKS ? 64 : 32;
    using Shares = ClusterShares<SPLITS, G::ACROSS, THREADS / 32>;
    constexpr int MINE = Shares::MINE;
    constexpr int SCALES = SUMS == BLOCKS ? STAGES * G::Of::COUNT
                           : EACH         ? THREADS / 32 * MINE * 8
                                          : 0;
    extern __shared__ __align__(1024) unsigned char bytes[];
    __shared__ typename G::Ring stages;
    __shared__ Shares shares;
    unsigned ring = slab_aligned(shared_address(bytes));
    unsigned char* start = bytes + (ring - shared_address(bytes));
    float* scales = reinterpret_cast<float*>(start + STAGES * G::STAGE);
    Walk<SPLITS> walk(p, G::STEP);
    if (warpgroup_index() == G::CONSUMERS) {
        if constexpr (R::MOVED) fewer_registers<R::COPYING>();
        if (threadIdx.x >= THREADS + COPYING) return;  // an arrival at the cluster's barrier too
        if (threadIdx.x == THREADS) {
            prefetch_map(A.whole), prefetch_map(B.whole);
            if (SPLITS > 1) shares.init();
            stages.init(SUMS == BLOCKS ? 33 : 1, G::CONSUMERS * 4);
        }
        __syncwarp();
        if (SPLITS > 1) cluster_arrive();
        bool of_scales = SUMS == BLOCKS && threadIdx.x >= THREADS + 32;
        if (of_scales) barrier_sync<THREADS + COPYING>(2);
        else barrier_arrive<THREADS + COPYING>(2);
        if (!of_scales && threadIdx.x != THREADS) return;
        wait_for_kernels();
        Turn<STAGES> turn;
        while (walk.next()) {
            Work work = Work::number<BM, BN>(walk.at, p);
            if (of_scales)
                G::Of::fill(scales, stages, turn, scale_a, scale_b, s, p, work.row, work.column,
                            walk.begin, walk.steps);
            else
                G::fill(A, B, ring, stages, turn, work.row, work.column, make_int2(0, 0),
                        walk.begin * G::STEP, walk.steps);
        }
        if (of_scales) wait_all_copies();
        return;
    }
    if constexpr (R::MOVED) more_registers<R::COMPUTING>();
    if (SPLITS > 1) cluster_arrive();
    barrier_sync<THREADS + COPYING>(2);
    start_next_kernel();
    wait_for_kernels();
    int consumer = warpgroup_index(), warp = threadIdx.x / 32;
    G tile;
    TileBias<T, BIAS, MINE * 8> added;
    T* staging = reinterpret_cast<T*>(scales + SCALES);
    T* bias_columns = staging + THREADS / 32 * Results::ELEMENTS;
    staging += warp * Results::ELEMENTS;
    while (walk.next()) {
        Work work = Work::number<BM, BN>(walk.at, p);
        int row = work.row + warp * 16,
            column = work.column + (SPLITS > 1 ? Shares::first() * 8 : 0);
        TileScales<MINE * 8, EACH> of_tile;
        added.fetch(bias, bias_columns + warp * MINE * 8, p, row, column);
        if constexpr (SUMS != BLOCKS) of_tile.fetch(scale_a, scale_b, s, p, row, column);
        if constexpr (SUMS == FAST) {
            tile.start(ring, stages, consumer, walk.steps);
            tile.finish(stages);
        } else {
            tile.multiply_parts(ring, stages, consumer, walk.steps, scales);
        }
        added.share();
        auto finish = [&](auto& sums) {
            if constexpr (SUMS != BLOCKS) of_tile.multiply(sums, scales + warp * MINE * 8);
            Results::store(sums, staging, C, added, p, row, column);
        };
        if constexpr (SPLITS == 1) {
            finish(tile.of[0]);
        } else {
            float sums[MINE][4];
            void* beside = bias_columns + THREADS / 32 * MINE * 8;
            float4* room = reinterpret_cast<float4*>(Shares::REPLACES ? start : beside);
            if (shares.add(tile.of[0], sums, room)) finish(sums);
        }
    }
}

// A block for an SM, and RESIDENT blocks for an SM: see pipelined.cu.
template <class E, class T, int BM, int BN, int STAGES, int SPLITS, int SUMS, bool EACH,
          bool TRANSPOSED, bool WHOLE, int BIAS>
__global__ void __launch_bounds__(BM * 2 + 128, 1)
    scaled(MAPS, const float* scale_a, const float* scale_b, const T* bias, T* C,
           const __grid_constant__ Scales s, const __grid_constant__ Problem p) {
    multiply_scaled<E, T, BM, BN, STAGES, 1, SPLITS, SUMS, EACH, TRANSPOSED, WHOLE, BIAS>(
        {A, A_edge, p.M}, {B, B_edge, p.N}, scale_a, scale_b, bias, C, s, p);
}

template <class E, class T, int BM, int BN, int STAGES, int RESIDENT, int SPLITS, int SUMS,
          bool EACH, bool TRANSPOSED, bool WHOLE, int BIAS>
__global__ void __maxnreg__((Registers<BM / 16 + 1, RESIDENT>::LAUNCH))
    scaled_beside(MAPS, const float* scale_a, const float* scale_b, const T* bias, T* C,
                  const __grid_constant__ Scales s, const __grid_constant__ Problem p) {
    multiply_scaled<E, T, BM, BN, STAGES, RESIDENT, SPLITS, SUMS, EACH, TRANSPOSED, WHOLE, BIAS>(
        {A, A_edge, p.M}, {B, B_edge, p.N}, scale_a, scale_b, bias, C, s, p);
}
