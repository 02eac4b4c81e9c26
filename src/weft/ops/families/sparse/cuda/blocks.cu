// Products of a block-sparse matrix (BSR) and a dense one, out[M][N] = A dense[K][N]: tensor cores
// for 16-bit elements, ordinary multiplications for float32. A block computes rows of one row of
// blocks and walks over them: a ring of cp.async stages.
#include "blocks.cuh"

// Fills the ring with STAGES - 1 steps, then one step at a time; `multiply` gets the stage of each.
template <int STAGES, class Fill, class Multiply>
__device__ void walk_steps(int steps, Fill fill, Multiply multiply) {
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; ++i) {
        if (i < steps) fill(i, i);
        commit_copies();
    }
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        wait_copies<STAGES - 2>();
        __syncthreads();  // the step is there, and the one before has been multiplied
        int more = step + STAGES - 1;
        if (more < steps) fill(more, more % STAGES);
        commit_copies();
        multiply(step % STAGES);
    }
    wait_all_copies();
}

// Rows of SIZE features, BN columns; a warp has WM x WN of them.
template <class T, class I, int SIZE, int BN, int WM, int WN, int STAGES, bool WHOLE>
__global__ void __launch_bounds__(SIZE / WM * (BN / WN) * 32)
    blocks_half(const I* crow, const I* col, const T* values, const T* dense, T* out,
                const __grid_constant__ BlockSizes s) {
    constexpr int STEP = SIZE < 64 ? SIZE : 64, THREADS = SIZE / WM * (BN / WN) * 32;
    constexpr int LEFT = SIZE * STEP * 2, STAGE = LEFT + STEP * BN * 2;
    constexpr int DOWN = WM / 16, ACROSS = WN / 8;
    extern __shared__ __align__(128) unsigned char bytes[];
    unsigned ring = shared_address(bytes);
    int c0 = blockIdx.y * BN, lane = lane_index(), warp = threadIdx.x / 32;
    int row = warp % (SIZE / WM) * WM, column = warp / (SIZE / WM) * WN;
    BlockSteps<I, SIZE, STEP> steps(crow, col, blockIdx.x);
    float of[DOWN][ACROSS][4] = {};
    auto fill = [&](int step, int stage) {
        unsigned tile = ring + stage * STAGE;
        copy_rows<SIZE, STEP, THREADS, true>(
            values + steps.block(step) * (SIZE * SIZE) + steps.within(step), SIZE, STEP,
            [=](int r, int v) { return tile + swizzle<STEP * 2>(r, v); });
        copy_rows<STEP, BN, THREADS, WHOLE>(
            dense + steps.dense_row(step, s) * s.columns + c0, s.columns, s.columns - c0,
            [=](int r, int v) { return tile + LEFT + swizzle<BN * 2>(r, v); });
    };
    walk_steps<STAGES>(steps.count, fill, [&](int stage) {
        unsigned tile = ring + stage * STAGE;
#pragma unroll
        for (int k = 0; k < STEP; k += 16) {
            unsigned left[DOWN][4], right[4];
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
                load_matrices_x4(
                    left[i], tile + swizzle<STEP * 2>(row + i * 16 + lane % 16, k / 8 + lane / 16));
#pragma unroll
            for (int n = 0; n < ACROSS; n += 2) {
                load_matrices_x4<true>(
                    right,
                    tile + LEFT + swizzle<BN * 2>(k + lane % 16, column / 8 + n + lane / 16));
#pragma unroll
                for (int i = 0; i < DOWN; ++i) {
                    mma<T>(of[i][n], left[i], right);
                    mma<T>(of[i][n + 1], left[i], right + 2);
                }
            }
        }
    });
    long long r0 = blockIdx.x * (long long)SIZE + row;
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int n = 0; n < ACROSS; ++n)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                int at = c0 + column + n * 8 + c_column(0);
                T* to_row = out + (r0 + i * 16 + c_row(half * 2)) * s.columns + at;
                Vector<T, 2> pair = {to<T>(of[i][n][half * 2]), to<T>(of[i][n][half * 2 + 1])};
                if (WHOLE && at < s.columns) store(to_row, pair);
                if (!WHOLE && at < s.columns) to_row[0] = pair[0];
                if (!WHOLE && at + 1 < s.columns) to_row[1] = pair[1];
            }
}

// BM rows of a row of blocks, 64 columns; 256 threads have BM / 16 rows of 4 columns each.
template <class I, int SIZE, int BM, int STAGES, bool WHOLE>
__global__ void __launch_bounds__(256)
    blocks_float(const I* crow, const I* col, const float* values, const float* dense, float* out,
                 const __grid_constant__ BlockSizes s) {
    constexpr int STEP = 16, BN = 64, DOWN = BM / 16, PARTS = SIZE / BM;
    __shared__ __align__(16) float left[STAGES][BM][STEP], right[STAGES][STEP][BN];
    int c0 = blockIdx.y * BN, part = blockIdx.x % PARTS;
    int row = threadIdx.x / 16 * DOWN, column = threadIdx.x % 16 * 4;
    BlockSteps<I, SIZE, STEP> steps(crow, col, blockIdx.x / PARTS);
    float of[DOWN][4] = {};
    auto fill = [&](int step, int stage) {
        copy_rows<BM, STEP, 256, true>(
            values + (steps.block(step) * SIZE + part * BM) * SIZE + steps.within(step), SIZE, STEP,
            [&](int r, int v) { return shared_address(&left[stage][r][v * 4]); });
        copy_rows<STEP, BN, 256, WHOLE>(
            dense + steps.dense_row(step, s) * s.columns + c0, s.columns, s.columns - c0,
            [&](int r, int v) { return shared_address(&right[stage][r][v * 4]); });
    };
    walk_steps<STAGES>(steps.count, fill, [&](int stage) {
#pragma unroll
        for (int k = 0; k < STEP; ++k) {
            Vector<float, 4> x = load<4>(&right[stage][k][column]);
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) of[i][j] += left[stage][row + i][k] * x[j];
        }
    });
    long long r0 = blockIdx.x * (long long)BM + row;
#pragma unroll
    for (int i = 0; i < DOWN; ++i) {
        float* to_row = out + (r0 + i) * s.columns + c0 + column;
        if (WHOLE && c0 + column < s.columns)
            store(to_row, Vector<float, 4>{of[i][0], of[i][1], of[i][2], of[i][3]});
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (!WHOLE && c0 + column + j < s.columns) to_row[j] = of[i][j];
    }
}
