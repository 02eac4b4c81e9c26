// Products of fp8 on Hopper: C = (A scale_a) (B scale_b) + bias, with scales of whole operands, of
// rows of A and columns of B, or of blocks of 128 of K.
#include "k_major.cuh"
#include "pipelined.cu"

STRUCT_SCALES  // see scaled.py

// Sums. FAST: those of all K by the tensor cores, which keep 13 bits below the largest term.
    // PARTS: those of each 128 of K are added in single precision. BLOCKS: so are they, after each
    // has been multiplied by its scales.
    enum ScaledSums {
        FAST,
        PARTS,
        BLOCKS
    };

// Results times the scales of their rows and columns. EACH: `columns` has one for each column, else
// one for all of them.
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

// The scales of a stage in shared memory, for BLOCKS: those of its rows, then of its columns.
template <int BM, int BN, bool EACH>
struct StageScales {
    static constexpr int COLUMNS = EACH ? BN : 4, COUNT = BM + COLUMNS;

    // Copies those of block `k` of K, for the rows from r0 and the columns from c0 on. All lanes of
    // a warp call it.
    static __device__ void copy(float* to, const float* a, const float* b, const Scales& s,
                                const Problem& p, int r0, int c0, int k) {
#pragma unroll
        for (int i = lane_index(); i < BM; i += 32)
            copy_async<4>(to + i, a + ((r0 + i) >> s.rows) * s.row_a + k * s.k_a, r0 + i < p.M);
#pragma unroll
        for (int i = lane_index(); i < (EACH ? BN : 1); i += 32)
            copy_async<4>(to + BM + i, b + ((c0 + i) >> s.columns) * s.column_b + k * s.k_b,
                          c0 + i < p.N);
    }
};

// A tile whose sums of each 128 of K are added to others in single precision. A wide tile has two
// parts, side by side: the tensor cores multiply one while the sums of the other are added.
template <class E, int BM, int BN, int STAGES, int SUMS, bool EACH>
struct TileInParts : PipelinedTile<E, BM, BN, STAGES, true, true> {
    using G = PipelinedTile<E, BM, BN, STAGES, true, true>;
    using Of = StageScales<BM, BN, EACH>;
    static constexpr int PIECES = BN < 96 ? 1 : 2, EIGHTS = G::ACROSS / PIECES;

    float part[PIECES][EIGHTS][4], sums[PIECES][EIGHTS][4];

    template <int PIECE>
    __device__ void issue(unsigned tile, int consumer) {
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < 64; k += 16)
            Elements<E>::template multiply<false, false>(
                part[PIECE], G::A::operand(tile, consumer * 64, k),
                G::B::operand(tile + G::A::BYTES, PIECE * EIGHTS * 8, k), k > 0);
        wgmma_commit();
    }
    // Adds the sums of a stage; `scales` are those of the warp's rows and of the columns.
    template <int PIECE>
    __device__ void add(const float* rows, const float* columns) {
        wgmma_results(part[PIECE]);
        if constexpr (SUMS == BLOCKS) {
            float of_rows[2] = {rows[c_row(0)], rows[c_row(2)]};
            add_scaled<EACH>(sums[PIECE], part[PIECE], of_rows,
                             columns + (EACH ? PIECE * EIGHTS * 8 : 0));
        } else {
#pragma unroll
            for (int n = 0; n < EIGHTS; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[PIECE][n][i] += part[PIECE][n][i];
        }
    }
    // Products of COUNT steps. The compiler must see all products end before the next ones: if some
    // were under way from one iteration of a loop to the next, it would wait for each of them.
    template <int COUNT, class Ring>
    __device__ void multiply_some(unsigned ring, Ring& stages, int consumer, const float* scales) {
        auto place = [&]() { return ring + this->turn.stage * G::STAGE; };
        auto rows = [&](int stage) { return scales + stage * Of::COUNT + warp_index() * 16; };
        auto columns = [&](int stage) { return scales + stage * Of::COUNT + BM; };
        stages.wait_full(this->turn);
        issue<0>(place(), consumer);
        if constexpr (PIECES == 2) issue<1>(place(), consumer);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            int stage = this->turn.stage;
            bool more = i + 1 < COUNT;
            this->turn.next();
            wgmma_wait<PIECES - 1>();
            add<0>(rows(stage), columns(stage));
            if (more) {
                stages.wait_full(this->turn);
                issue<0>(place(), consumer);
            }
            if constexpr (PIECES == 2) {
                if (more) wgmma_wait<1>();
                else wgmma_wait<0>();
                add<1>(rows(stage), columns(stage));
                if (more) issue<1>(place(), consumer);
            }
            G::release(stages, stage);
        }
    }
    // Products of `steps` steps; their sums are in `of` then. `scales` has those of all stages.
    template <class Ring>
    __device__ void multiply_parts(unsigned ring, Ring& stages, int consumer, int steps,
                                   const float* scales) {
        constexpr int TOGETHER = PIECES == 2 ? 4 : 1;
        memset(sums, 0, sizeof sums);
#pragma unroll 1
        for (; steps >= TOGETHER; steps -= TOGETHER)
            multiply_some<TOGETHER>(ring, stages, consumer, scales);
        if constexpr (TOGETHER > 1)
#pragma unroll 1
            for (; steps > 0; --steps) multiply_some<1>(ring, stages, consumer, scales);
#pragma unroll
        for (int n = 0; n < G::ACROSS; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) this->of[n][i] = sums[n / EIGHTS][n % EIGHTS][i];
    }
};

// As multiply_tiles of pipelined.cu, for operands E = Fp8<...> and results T. EACH: columns of a
// tile differ in their scales.
template <class E, class T, int BM, int BN, int STAGES, int RESIDENT, int SPLITS, int SUMS,
          bool EACH, bool TRANSPOSED, bool WHOLE, int BIAS>
__device__ void multiply_scaled(const TensorMap& A, const TensorMap& B, const float* scale_a,
                                const float* scale_b, const T* bias, T* C, const Scales& s,
                                const Problem& p) {
    using G = TileInParts<E, BM, BN, STAGES, SUMS, EACH>;
    using Results = ResultStore<T, TRANSPOSED, WHOLE, 0, RESIDENT == 1 && BM <= 192 ? 64 : 32>;
    using R = Registers<BM / 16 + (RESIDENT == 1 ? 4 : 1), RESIDENT>;
    constexpr int THREADS = BM * 2, MINE = G::ACROSS / SPLITS;
    constexpr int SCALES = SUMS == BLOCKS ? STAGES * G::Of::COUNT
                           : EACH         ? THREADS / 32 * MINE * 8
                                          : 0;
    extern __shared__ __align__(1024) unsigned char bytes[];
    __shared__ typename G::Ring stages;
    unsigned ring = slab_aligned(shared_address(bytes));
    unsigned char* start = bytes + (ring - shared_address(bytes));
    float* scales = reinterpret_cast<float*>(start + STAGES * G::STAGE);
    int steps = ceil_div(p.K, G::STEP), works = p.tiles_m * p.tiles_n;
    int part = SPLITS == 1 ? 0 : blockIdx.x % SPLITS, first = blockIdx.x / SPLITS;
    int begin = steps * part / SPLITS, mine = steps * (part + 1) / SPLITS - begin;
    if (warpgroup_index() == G::CONSUMERS) {
        if constexpr (R::MOVED) fewer_registers<R::COPYING>();
        if (threadIdx.x >= THREADS + 32) return;
        if (threadIdx.x == THREADS) {
            prefetch_map(A), prefetch_map(B);
            stages.init(SUMS == BLOCKS ? 33 : 1, G::CONSUMERS * 4);
        }
        __syncwarp();
        barrier_arrive<THREADS + 32>(2);
        if (SUMS != BLOCKS && threadIdx.x != THREADS) return;
        wait_for_kernels();
        Turn<STAGES> turn;
        for (int at = first; at < works; at += gridDim.x / SPLITS) {
            Work work = Work::number<BM, BN>(at, p);
            if constexpr (SUMS == BLOCKS) {
#pragma unroll 1
                for (int step = begin; step < begin + mine; ++step) {
                    int stage = turn.stage;
                    stages.wait_empty(turn);
                    G::Of::copy(scales + stage * G::Of::COUNT, scale_a, scale_b, s, p, work.row,
                                work.column, step);
                    stages.full[stage].arrive_after_copies();
                    if (threadIdx.x == THREADS)
                        G::fill(A, B, ring, stages, turn, work.row, work.column, make_int2(0, 0),
                                step * G::STEP, 1);
                    else turn.next();
                    __syncwarp();
                }
            } else {
                G::fill(A, B, ring, stages, turn, work.row, work.column, make_int2(0, 0),
                        begin * G::STEP, mine);
            }
        }
        if constexpr (SUMS == BLOCKS) wait_all_copies();
        return;
    }
    if constexpr (R::MOVED) more_registers<R::COMPUTING>();
    barrier_sync<THREADS + 32>(2);
    start_next_kernel();
    wait_for_kernels();
    int consumer = warpgroup_index(), warp = threadIdx.x / 32;
    G tile;
    TileBias<T, BIAS, MINE * 8> added;
    T* staging = reinterpret_cast<T*>(scales + SCALES);
    T* columns = staging + THREADS / 32 * Results::ELEMENTS + warp * MINE * 8;
    staging += warp * Results::ELEMENTS;
    for (int at = first; at < works; at += gridDim.x / SPLITS) {
        Work work = Work::number<BM, BN>(at, p);
        int row = work.row + warp * 16, column = work.column + part * MINE * 8;
        TileScales<MINE * 8, EACH> of_tile;
        added.fetch(bias, columns, p, row, column);
        if constexpr (SUMS != BLOCKS) of_tile.fetch(scale_a, scale_b, s, p, row, column);
        if constexpr (SUMS == FAST) tile.multiply(ring, stages, consumer, mine);
        else tile.multiply_parts(ring, stages, consumer, mine, scales);
        added.share();
        auto finish = [&](auto& sums) {
            if constexpr (SUMS != BLOCKS) of_tile.multiply(sums, scales + warp * MINE * 8);
            Results::store(sums, staging, C, added, p, row, column);
        };
        if constexpr (SPLITS == 1) {
            finish(tile.of);
        } else {
            float sums[MINE][4];
            add_shares<SPLITS, G::ACROSS, THREADS>(tile.of, sums, reinterpret_cast<float4*>(start));
            finish(sums);
        }
    }
}

// A block for an SM, and RESIDENT blocks for an SM: see pipelined.cu.
template <class E, class T, int BM, int BN, int STAGES, int SPLITS, int SUMS, bool EACH,
          bool TRANSPOSED, bool WHOLE, int BIAS>
__global__ void __launch_bounds__(BM * 2 + 128, 1)
    scaled(const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
           const float* scale_a, const float* scale_b, const T* bias, T* C,
           const __grid_constant__ Scales s, const __grid_constant__ Problem p) {
    multiply_scaled<E, T, BM, BN, STAGES, 1, SPLITS, SUMS, EACH, TRANSPOSED, WHOLE, BIAS>(
        A, B, scale_a, scale_b, bias, C, s, p);
}

template <class E, class T, int BM, int BN, int STAGES, int RESIDENT, int SPLITS, int SUMS,
          bool EACH, bool TRANSPOSED, bool WHOLE, int BIAS>
__global__ void __maxnreg__((Registers<BM / 16 + 1, RESIDENT>::LAUNCH))
    scaled_beside(const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
                  const float* scale_a, const float* scale_b, const T* bias, T* C,
                  const __grid_constant__ Scales s, const __grid_constant__ Problem p) {
    multiply_scaled<E, T, BM, BN, STAGES, RESIDENT, SPLITS, SUMS, EACH, TRANSPOSED, WHOLE, BIAS>(
        A, B, scale_a, scale_b, bias, C, s, p);
}
