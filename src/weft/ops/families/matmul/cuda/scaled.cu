// Products of fp8 and of int8 on Hopper: C = (A scale_a) (B scale_b) + bias, with scales of whole
// operands, of rows of A and columns of B, or, of fp8, of blocks of 128 of K.
#include "k_major.cuh"
#include "multiply_tiles.cuh"

// Sums. FAST: those of all K by the tensor cores, which keep 13 bits below the largest term of fp8,
// and all bits of int8.
// PARTS: those of each 128 of K are added in single precision. BLOCKS: so are they, after each
// has been multiplied by its scales.
enum ScaledSums { FAST, PARTS, BLOCKS };

STRUCT_SCALES;  // see scaled.py

// Results times the scales of their rows and columns. EACH: `columns` has one for each column,
// else one for all of them.
template <bool EACH, int N, class Sum>
__device__ void add_scaled(float (&sums)[N][4], const Sum (&of)[N][4], const float (&rows)[2],
                           const float* columns) {
    Vector<float, 2> scale = {EACH ? 1 : columns[0], EACH ? 1 : columns[0]};
#pragma unroll
    for (int n = 0; n < N; ++n) {
        if (EACH) scale = load<2>(columns + n * 8 + c_column(0));
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[n][i] += float(of[n][i]) * (rows[i / 2] * scale[i % 2]);
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
    template <int N, class Sum>
    __device__ void multiply(const Sum (&of)[N][4], float (&results)[N][4], float* mine) const {
        const float* columns = of_columns;
        if constexpr (EACH) {
            __syncwarp();  // those of the tile before have been read
#pragma unroll
            for (int i = 0; i < OF_LANE; ++i)
                if (i * 32 + lane_index() < COLUMNS) mine[i * 32 + lane_index()] = of_columns[i];
            __syncwarp();
            columns = mine;
        }
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) results[n][i] = -0.0f;
        add_scaled<EACH>(results, of, of_rows, columns);
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

// How the sums of a tile are made and scaled: see ScaledSums, and TensorSums of multiply_tiles.cuh.
// EACH: columns of a tile differ in their scales.
template <class E, class S, int SUMS, bool EACH>
struct Scaled : TensorSums<E, S, true, true> {
    using Tile = typename TensorSums<E, S, true, true>::Tile;
    using Ring = typename Tile::Ring;
    using Of = StageScales<S::BM, S::BN, EACH>;
    static constexpr int COLUMNS = S::Shares::MINE * 8;
    static constexpr int BYTES = 4 * (SUMS == BLOCKS ? S::STAGES * Of::COUNT
                                      : EACH         ? S::WARPS * COLUMNS
                                                     : 0);
    static constexpr bool FILLS = SUMS == BLOCKS;

    const float *a, *b;
    const Scales& s;
    TileScales<COLUMNS, EACH> of_tile;

    __device__ void fill(unsigned char* room, Ring& stages, Turn<S::STAGES>& turn, const Problem& p,
                         const Work& work, int begin, int steps) {
        Of::fill(reinterpret_cast<float*>(room), stages, turn, a, b, s, p, work.row, work.column,
                 begin, steps);
    }
    __device__ void fetch(const Problem& p, const Work&, int row, int column) {
        if constexpr (SUMS != BLOCKS) of_tile.fetch(a, b, s, p, row, column);
    }
    __device__ void start(Tile& tile, unsigned ring, Ring& stages, int consumer, int steps,
                          unsigned char* room) {
        if constexpr (SUMS == FAST) tile.start(ring, stages, consumer, steps);
        else if constexpr (SUMS == PARTS) multiply_in_parts(tile, ring, stages, consumer, steps);
        else multiply_blocks(tile, ring, stages, consumer, steps, room);
    }
    // As multiply_in_parts; the sums of each step are multiplied by its scales.
    __device__ void multiply_blocks(Tile& tile, unsigned ring, Ring& stages, int consumer,
                                    int steps, unsigned char* room) {
        float sums[Tile::ACROSS][4] = {};
#pragma unroll 1
        for (; steps > 0; --steps, tile.turn.next()) {
            int stage = tile.turn.stage;
            const float *rows = reinterpret_cast<float*>(room) + stage * Of::COUNT,
                        *columns = rows + S::BM;
            stages.wait_full(tile.turn);
            tile.multiply_stage(ring + stage * Tile::STAGE, consumer, true);
            rows += warp_index() * 16;
            float of_rows[2] = {rows[c_row(0)], rows[c_row(2)]};
            wgmma_wait<0>();
            wgmma_results(tile.of[0]);
            add_scaled<EACH>(sums, tile.of[0], of_rows, columns);
            __syncwarp();
            Tile::release(stages, stage);
        }
        memcpy(tile.of[0], sums, sizeof sums);
    }
    __device__ void finish(Tile& tile, Ring& stages) {
        if constexpr (SUMS == FAST) tile.finish(stages);
    }
    template <int N>
    __device__ void complete(const typename Tile::Sum (&of)[N][4], float (&results)[N][4],
                             unsigned char* room) {
        float* mine = reinterpret_cast<float*>(room) + threadIdx.x / 32 * COLUMNS;
        if constexpr (SUMS == BLOCKS) memcpy(results, of, sizeof of);
        else of_tile.multiply(of, results, mine);
    }
};

// A block for an SM, and RESIDENT blocks for an SM: see pipelined.cu.
template <class E, class T, int BM, int BN, int STAGES, int SPLITS, int SUMS, bool EACH,
          bool TRANSPOSED, bool WHOLE, int BIAS>
__global__ void __launch_bounds__(BM * 2 + 128, 1)
    scaled(MAPS, const float* scale_a, const float* scale_b, const T* bias, T* C,
           const __grid_constant__ Scales s, const __grid_constant__ Problem p) {
    using S = Schedule<BM, BN, STAGES, 1, SPLITS>;
    Scaled<E, S, SUMS, EACH> sums{{}, scale_a, scale_b, s};
    multiply_tiles<S, Results<T, TRANSPOSED, WHOLE, 0, BIAS>>(OF_MAPS, A, bias, C, p, sums);
}

template <class E, class T, int BM, int BN, int STAGES, int RESIDENT, int SPLITS, int SUMS,
          bool EACH, bool TRANSPOSED, bool WHOLE, int BIAS>
__global__ void __maxnreg__((Registers<BM / 16 + 1, RESIDENT>::LAUNCH))
    scaled_beside(MAPS, const float* scale_a, const float* scale_b, const T* bias, T* C,
                  const __grid_constant__ Scales s, const __grid_constant__ Problem p) {
    using S = Schedule<BM, BN, STAGES, RESIDENT, SPLITS>;
    Scaled<E, S, SUMS, EACH> sums{{}, scale_a, scale_b, s};
    multiply_tiles<S, Results<T, TRANSPOSED, WHOLE, 0, BIAS>>(OF_MAPS, A, bias, C, p, sums);
}
