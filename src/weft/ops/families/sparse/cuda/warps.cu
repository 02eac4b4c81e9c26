// Products with a 2:4 sparse weight by mma.sp, for Ampere and later GPUs: y[N][M] = x W' + bias.
// A block computes BM features of BN rows of x: a ring of cp.async stages, 64 of K each.
#include <weft/convert.cuh>
#include <weft/problem.cuh>
#include <weft/sparse.cuh>
#include <weft/vector.cuh>

using namespace weft;

STRUCT_SPARSESIZES;  // see linear.py

// A warp has WM rows, at most 64, and WN columns of the tile.
template <class T, int BM, int BN, int WM, int WN, int STAGES>
struct WarpTile {
    static constexpr int DOWN = WM / 16, ACROSS = WN / 8, THREADS = BM / WM * (BN / WN) * 32;
    static constexpr int DENSE = BN * 128, STAGE = DENSE + BM * 64, PITCH = BM + 8;
    static_assert(WM <= 64 && 64 % WM == 0, "one block of metadata");

    float of[DOWN][ACROSS][4] = {};
    int row = threadIdx.x / 32 % (BM / WM) * WM, column = threadIdx.x / 32 / (BM / WM) * WN;

    // Starts copies of step `step`; what is outside of the matrices is 0.
    static __device__ void fill(unsigned tile, const T* values, const T* x, const SparseSizes& s,
                                int r0, int c0, int step) {
        for (int i = threadIdx.x; i < BN * 8; i += THREADS) {
            int column = c0 + i / 8, k = step * 64 + i % 8 * 8;
            bool inside = column < s.columns && k < s.k;
            copy_async<16>(tile + swizzle<128>(i / 8, i % 8), inside ? x + column * s.pitch + k : x,
                           inside);
        }
        for (int i = threadIdx.x; i < BM * 4; i += THREADS) {
            int row = r0 + i / 4, k = step * 32 + i % 4 * 8;
            bool inside = row < s.rows && k < s.k / 2;
            copy_async<16>(tile + DENSE + swizzle<64>(i / 4, i % 4),
                           inside ? values + (long long)row * (s.k / 2) + k : values, inside);
        }
    }
    // Loads the metadata of a step: a word for each 16 rows. Rows past the last block have the last
    // block's.
    __device__ void fetch(unsigned (&words)[DOWN], const int* metadata, const SparseSizes& s,
                          int r0, int step) const {
        int block = min((r0 + row) / 64, ceil_div(s.rows, 64) - 1);
        long long at = (long long)block * ceil_div(s.k, 64) + step;
#pragma unroll
        for (int i = 0; i < DOWN; ++i)
            words[i] = metadata[at * 128 + row % 64 * 2 + i * 32 + lane_index()];
    }
    template <int SELECTOR>
    __device__ void multiply(unsigned tile, const unsigned (&words)[DOWN]) {
        int lane = lane_index();
        unsigned left[DOWN][4], right[4];
#pragma unroll
        for (int i = 0; i < DOWN; ++i)
            load_matrices_x4(
                left[i],
                tile + DENSE + swizzle<64>(row + i * 16 + lane % 16, SELECTOR * 2 + lane / 16));
#pragma unroll
        for (int n = 0; n < ACROSS; ++n) {
            load_matrices_x4(
                right, tile + swizzle<128>(column + n * 8 + lane % 8, SELECTOR * 4 + lane / 8));
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
                mma_sparse<T, SELECTOR>(of[i][n], left[i], right, words[i]);
        }
    }
    // Leaves the results in shared memory as rows of y, PITCH elements apart.
    __device__ void turn(T* to_tile, const T* bias, const SparseSizes& s, int r0) const {
#pragma unroll
        for (int i = 0; i < DOWN; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                int at = row + i * 16 + c_row(half * 2);
                float added = bias && r0 + at < s.rows ? to<float>(bias[r0 + at]) : -0.0f;
#pragma unroll
                for (int n = 0; n < ACROSS; ++n)
#pragma unroll
                    for (int j = 0; j < 2; ++j)
                        to_tile[(column + n * 8 + c_column(j)) * PITCH + at] =
                            to<T>(of[i][n][half * 2 + j] + added);
            }
    }
};

// Stores the tile, VECTOR features at a time.
template <int VECTOR, class G, int BM, int BN, class T>
__device__ void write_rows(const T* tile, T* y, const SparseSizes& s, int r0, int c0) {
    for (int i = threadIdx.x; i < BN * (BM / VECTOR); i += G::THREADS) {
        int column = i / (BM / VECTOR), row = i % (BM / VECTOR) * VECTOR;
        if (c0 + column < s.columns && r0 + row < s.rows)
            store(y + (long long)(c0 + column) * s.rows + r0 + row,
                  load<VECTOR>(tile + column * G::PITCH + row));
    }
}

template <class T, int BM, int BN, int WM, int WN, int STAGES>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32)
    by_warps(const T* x, const T* values, const int* metadata, const T* bias, T* y,
             const __grid_constant__ SparseSizes s) {
    using G = WarpTile<T, BM, BN, WM, WN, STAGES>;
    extern __shared__ __align__(128) unsigned char bytes[];
    unsigned ring = shared_address(bytes);
    int2 at = tile_in_bands(blockIdx.x, ceil_div(s.rows, BM), ceil_div(s.columns, BN));
    int r0 = at.x * BM, c0 = at.y * BN, steps = ceil_div(s.k, 64);
    G tile;
    unsigned words[G::DOWN], next[G::DOWN];
#pragma unroll
    for (int i = 0; i < STAGES - 1; ++i) {
        if (i < steps) G::fill(ring + i * G::STAGE, values, x, s, r0, c0, i);
        commit_copies();
    }
    tile.fetch(next, metadata, s, r0, 0);
    for (int step = 0; step < steps; ++step) {
        wait_copies<STAGES - 2>();
        __syncthreads();  // the step is there, and the one before has been multiplied
        int more = step + STAGES - 1;
        if (more < steps) G::fill(ring + more % STAGES * G::STAGE, values, x, s, r0, c0, more);
        commit_copies();
        memcpy(words, next, sizeof words);
        if (step + 1 < steps) tile.fetch(next, metadata, s, r0, step + 1);
        unsigned stage = ring + step % STAGES * G::STAGE;
        tile.template multiply<0>(stage, words);
        tile.template multiply<1>(stage, words);
    }
    wait_all_copies();
    __syncthreads();
    T* results = reinterpret_cast<T*>(bytes);
    tile.turn(results, bias, s, r0);
    __syncthreads();
    if (s.rows % 8 == 0) write_rows<8, G, BM, BN>(results, y, s, r0, c0);
    else write_rows<1, G, BM, BN>(results, y, s, r0, c0);
}
