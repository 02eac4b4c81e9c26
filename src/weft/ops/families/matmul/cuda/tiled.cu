// Matrix products in single precision: C = f(A B + bias), for any strides, batched, cut along K
// where tiles are few.
#include "tiled.cuh"
#include "problem.cuh"

// The product of two matrices.
template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int AMODE, int BMODE>
using Gemm = Tile<BM, BN, BK, WM, WN, TM, TN, STAGES, Side<BM, BK, BM / WM*(BN / WN) * 32, AMODE>,
                  Side<BN, BK, BM / WM*(BN / WN) * 32, BMODE>>;

template <class T, int ACTIVATION>
__device__ void write_tile(const T& tile, float* memory, float* C, const float* bias,
                           const Problem& p, int r0, int c0) {
    bool wide = p.column_c == 1 && p.row_c % 4 == 0 && reinterpret_cast<size_t>(C) % 16 == 0;
    // Instructions that are executed once for a tile wait for their fetch: a tile without bias has
    // few of them.
    auto store_wide = [&](auto of_element) {
        tile.each([&](int row, int column, const float* v) {
            int m = r0 + row, n = c0 + column;
            if (m >= p.M || n >= p.N) return;
            float r[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) r[j] = activated<ACTIVATION>(v[j] + of_element(m, n + j));
            *reinterpret_cast<float4*>(C + m * p.row_c + n) = make_float4(r[0], r[1], r[2], r[3]);
        });
    };
    if (wide && !bias)
        return store_wide([](int, int) { return -0.0f; });  // which changes no number
    if (wide)
        return store_wide([&](int m, int n) { return bias[m * p.row_bias + n * p.column_bias]; });
    // Rows that are no whole vectors: a warp passes LM rows at a time through shared memory, and
    // its lanes store neighbours.
    constexpr int WIDTH = T::LN * T::COLUMNS,
                  PITCH = WIDTH + 16;  // rows of two lanes one above the other: other banks
    static_assert(T::THREADS / 32 * T::LM * PITCH <= T::ROOM,
                  "the rows of all warps fit into the stages' memory");
    __syncthreads();
    float* rows = memory + threadIdx.x / 32 * (T::LM * PITCH);
    int lane = threadIdx.x % 32, top = r0 + tile.row - tile.down() * 4,
        n = c0 + tile.column - tile.across() * 4 + lane;
#pragma unroll
    for (int i = 0; i < T::ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < T::COLUMNS; j += 4)
            *reinterpret_cast<float4*>(rows + tile.down() * PITCH + tile.across() * 4 + j * T::LN) =
                make_float4(tile.of[i][j], tile.of[i][j + 1], tile.of[i][j + 2], tile.of[i][j + 3]);
        __syncwarp();
        int m = top + i / 4 * 4 * T::LM + i % 4;
        float* to = C + m * p.row_c + n * p.column_c;
#pragma unroll 2
        for (int r = 0; r < T::LM; ++r, m += 4, to += 4 * p.row_c) {
            if (m >= p.M) break;
#pragma unroll
            for (int q = 0; q < WIDTH; q += 32) {
                if (n + q >= p.N) break;
                float v = rows[r * PITCH + lane + q];
                if (bias) v += bias[m * p.row_bias + (n + q) * p.column_bias];
                to[q * p.column_c] = activated<ACTIVATION>(v);
            }
        }
        __syncwarp();
    }
}

// Blocks are numbered by tile, then by part of K, then by product of the batch. With SPLIT, blocks
// share the K of a tile.
template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int RESIDENT,
          int AMODE, int BMODE, int ACTIVATION, bool SPLIT>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    tiled(const float* A, const float* B, const float* bias, float* C, float* parts, int* counters,
          const Problem p) {
    using T = Gemm<BM, BN, BK, WM, WN, TM, TN, STAGES, AMODE, BMODE>;
    extern __shared__ __align__(16) float memory[];
    T tile;
    {
        Place at = Place::here<BM, BN>(p);
        if (at.batch >= p.batch) return;
        int k0 = SPLIT ? at.split * p.each : 0, k1 = SPLIT ? min(p.K, k0 + p.each) : p.K;
        float *as = memory, *bs = memory + STAGES * T::A::SIZE;
        tile.run(typename T::A(A + at.batch * p.batch_a, as, p.lda, at.row, p.M, k0, k1),
                 typename T::B(B + at.batch * p.batch_b, bs, p.ldb, at.column, p.N, k0, k1), as, bs,
                 k0, k1);
    }
    Place at = Place::here<BM, BN>(p);
    if constexpr (SPLIT) {
        long long slot = at.batch * p.tiles_m * p.tiles_n + at.tile;
        if (!tile.joined(parts, counters, slot, at.split, p.splits)) return;
    }
    C += at.batch * p.batch_c;
    if (bias) bias += at.batch * p.batch_bias;
    write_tile<T, ACTIVATION>(tile, memory, C, bias, p, at.row, at.column);
}
