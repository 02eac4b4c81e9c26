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

// The scales of a warp's part of a tile: 16 rows, and COLUMNS columns. EACH: columns differ.
template <int COLUMNS, bool EACH>
struct TileScales {
    static constexpr int OF_LANE = EACH ? ceil_div(COLUMNS, 32) : 1;

    float of_rows[2], of_columns[OF_LANE];

    // Fetches those of block `k` of K, for the rows from r0 and the columns from c0 on.
    __device__ void fetch(const float* a, const float* b, const Scales& s, const Problem& p, int r0,
                          int c0, int k) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int row = r0 + c_row(i * 2);
            of_rows[i] = row < p.M ? a[(row >> s.rows) * s.row_a + k * s.k_a] : 0;
        }
#pragma unroll
        for (int i = 0; i < OF_LANE; ++i) {
            int column = c0 + (EACH ? i * 32 + lane_index() : 0);
            of_columns[i] = column < p.N ? b[(column >> s.columns) * s.column_b + k * s.k_b] : 0;
        }
    }
    // Returns that of element i of an accumulator, of the columns from n * 8 on.
    __device__ float of_column(int n, int i) const {
        if constexpr (EACH) return shuffle(of_columns[n / 4], n % 4 * 8 + c_column(i));
        else return of_columns[0];
    }
    // Adds results times their scales to the sums.
    template <int N>
    __device__ void add(float (&sums)[N][4], const float (&of)[N][4]) const {
        if constexpr (EACH) {
#pragma unroll
            for (int n = 0; n < N; ++n) {
                float scale[2] = {of_column(n, 0), of_column(n, 1)};
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    sums[n][i] += of[n][i] * (of_rows[i / 2] * scale[i % 2]);
            }
        } else {
            float scale[2] = {of_rows[0] * of_columns[0], of_rows[1] * of_columns[0]};
#pragma unroll
            for (int n = 0; n < N; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[n][i] += of[n][i] * scale[i / 2];
        }
    }
    template <int N>
    __device__ void multiply(float (&sums)[N][4]) const {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            float scale[2] = {of_column(n, 0), of_column(n, 1)};
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[n][i] *= of_rows[i / 2] * scale[i % 2];
        }
    }
};

// A tile whose sums of each 128 of K are added to others in single precision. The products of other
// warpgroups cover the additions.
template <class G, int SUMS, bool EACH>
struct TileInParts : G {
    float sums[G::ACROSS][4];

    // Products of `steps` steps, the first of which is number k.
    template <class Ring>
    __device__ void multiply_parts(unsigned ring, Ring& stages, int consumer, int steps,
                                   const float* scale_a, const float* scale_b, const Scales& s,
                                   const Problem& p, int r0, int c0, int k) {
        memset(sums, 0, sizeof sums);
#pragma unroll 1
        for (int step = 0; step < steps; ++step, this->turn.next()) {
            TileScales<G::ACROSS * 8, EACH> scales;
            stages.wait_full(this->turn);
            this->multiply_stage(ring + this->turn.stage * G::STAGE, consumer, true);
            if constexpr (SUMS == BLOCKS) scales.fetch(scale_a, scale_b, s, p, r0, c0, k + step);
            wgmma_wait<0>();
            wgmma_results(this->of);
            G::release(stages, this->turn.stage);
            if constexpr (SUMS == BLOCKS) {
                scales.add(sums, this->of);
            } else {
#pragma unroll
                for (int n = 0; n < G::ACROSS; ++n)
#pragma unroll
                    for (int i = 0; i < 4; ++i) sums[n][i] += this->of[n][i];
            }
        }
    }
};

// As multiply_tiles of pipelined.cu, for operands E = Fp8<...> and results T. EACH: columns of a
// tile differ in their scales.
template <class E, class T, int BM, int BN, int STAGES, int RESIDENT, int SPLITS, int SUMS,
          bool EACH, bool TRANSPOSED, bool WHOLE, int BIAS>
__device__ void multiply_scaled(const TensorMap& A, const TensorMap& B, const float* scale_a,
                                const float* scale_b, const T* bias, T* C, const Scales& s,
                                const Problem& p) {
    using G = TileInParts<PipelinedTile<E, BM, BN, STAGES, true, true>, SUMS, EACH>;
    using Results = ResultStore<T, TRANSPOSED, WHOLE, 0, RESIDENT == 1 && BM <= 192 ? 64 : 32>;
    using R = Registers<BM / 16 + (RESIDENT == 1 ? 4 : 1), RESIDENT>;
    constexpr int THREADS = BM * 2, MINE = G::ACROSS / SPLITS;
    extern __shared__ __align__(1024) unsigned char bytes[];
    __shared__ typename G::Ring stages;
    unsigned ring = slab_aligned(shared_address(bytes));
    unsigned char* start = bytes + (ring - shared_address(bytes));
    int steps = ceil_div(p.K, G::STEP), works = p.tiles_m * p.tiles_n;
    int part = SPLITS == 1 ? 0 : blockIdx.x % SPLITS, first = blockIdx.x / SPLITS;
    int begin = steps * part / SPLITS, mine = steps * (part + 1) / SPLITS - begin;
    if (warpgroup_index() == G::CONSUMERS) {
        if constexpr (R::MOVED) fewer_registers<R::COPYING>();
        if (threadIdx.x >= THREADS + 32) return;
        if (threadIdx.x == THREADS) {
            prefetch_map(A), prefetch_map(B);
            stages.init(1, G::CONSUMERS * 4);
        }
        __syncwarp();
        barrier_arrive<THREADS + 32>(2);
        if (threadIdx.x != THREADS) return;
        wait_for_kernels();
        Turn<STAGES> turn;
        for (int at = first; at < works; at += gridDim.x / SPLITS) {
            Work work = Work::number<BM, BN>(at, p);
            G::fill(A, B, ring, stages, turn, work.row, work.column, make_int2(0, 0),
                    begin * G::STEP, mine);
        }
        return;
    }
    if constexpr (R::MOVED) more_registers<R::COMPUTING>();
    barrier_sync<THREADS + 32>(2);
    start_next_kernel();
    wait_for_kernels();
    int consumer = warpgroup_index(), warp = threadIdx.x / 32;
    G tile;
    TileBias<T, BIAS, MINE * 8> added;
    T* staging = reinterpret_cast<T*>(start + STAGES * G::STAGE);
    T* columns = staging + THREADS / 32 * Results::ELEMENTS + warp * MINE * 8;
    staging += warp * Results::ELEMENTS;
    for (int at = first; at < works; at += gridDim.x / SPLITS) {
        Work work = Work::number<BM, BN>(at, p);
        int row = work.row + warp * 16, column = work.column + part * MINE * 8;
        TileScales<MINE * 8, EACH> scales;
        added.fetch(bias, columns, p, row, column);
        if constexpr (SUMS != BLOCKS) scales.fetch(scale_a, scale_b, s, p, row, column, 0);
        if constexpr (SUMS == FAST) tile.multiply(ring, stages, consumer, mine);
        else
            tile.multiply_parts(ring, stages, consumer, mine, scale_a, scale_b, s, p, row,
                                work.column, begin);
        added.share();
        auto finish = [&](auto& sums) {
            if constexpr (SUMS != BLOCKS) scales.multiply(sums);
            Results::store(sums, staging, C, added, p, row, column);
        };
        auto& all = [&]() -> auto& {
            if constexpr (SUMS == FAST) return tile.of;
            else return tile.sums;
        }();
        if constexpr (SPLITS == 1) {
            finish(all);
        } else {
            float sums[MINE][4];
            add_shares<SPLITS, G::ACROSS, THREADS>(all, sums, reinterpret_cast<float4*>(start));
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
