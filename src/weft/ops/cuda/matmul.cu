// Matrix products in single precision: C = f(A B + bias), for any strides, batched, cut along K where tiles are few.
#include "gemm.cuh"
#include "problem.cuh"

template <class T, int ACTIVATION>
__device__ void write_tile(const T& tile, float* memory, float* C, const float* bias, const Problem& p, int r0, int c0) {
    bool wide = p.column_c == 1 && p.row_c % 4 == 0 && reinterpret_cast<size_t>(C) % 16 == 0;
    if (wide) {
        tile.each([&](int row, int column, const float* v) {
            int m = r0 + row, n = c0 + column;
            if (m >= p.M || n >= p.N) return;
            float r[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                r[j] = v[j] + (bias ? bias[m * p.row_bias + (n + j) * p.column_bias] : 0);
                r[j] = activated<ACTIVATION>(r[j]);
            }
            *reinterpret_cast<float4*>(C + m * p.row_c + n) = make_float4(r[0], r[1], r[2], r[3]);
        });
        return;
    }
    // Rows that are no whole vectors: a warp turns its results in shared memory, so that lanes store neighbours.
    __syncthreads();
    float* mine = memory + threadIdx.x / 32 * 128;
    int lane = threadIdx.x % 32, corner_row = tile.row - tile.down() * 4, corner_column = tile.column - tile.across() * 4;
    tile.each([&](int row, int column, const float* v) {
        *reinterpret_cast<float4*>(mine + (tile.down() * T::LN + tile.across()) * 4) = make_float4(v[0], v[1], v[2], v[3]);
        __syncwarp();
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            int e = q * 32 + lane, m = r0 + row - tile.row + corner_row + e / (T::LN * 4) * 4;
            int n = c0 + column - tile.column + corner_column + e % (T::LN * 4);
            if (m < p.M && n < p.N) finish<ACTIVATION>(C, bias, p, m, n, mine[e]);
        }
        __syncwarp();
    });
}

// Blocks are numbered by tile, then by part of K, then by product of the batch. With SPLIT, blocks share the K of a tile.
template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int RESIDENT, int AMODE, int BMODE,
          int ACTIVATION, bool SPLIT>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    tiled(const float* A, const float* B, const float* bias, float* C, float* parts, int* counters, const Problem p) {
    using T = Gemm<BM, BN, BK, WM, WN, TM, TN, STAGES, AMODE, BMODE>;
    extern __shared__ __align__(16) float memory[];
    T tile;
    {
        Place at = Place::here<BM, BN>(p);
        if (at.batch >= p.batch) return;
        int k0 = SPLIT ? at.split * p.each : 0, k1 = SPLIT ? min(p.K, k0 + p.each) : p.K;
        float *as = memory, *bs = memory + STAGES * T::A::SIZE;
        tile.run(typename T::A(A + at.batch * p.batch_a, as, p.lda, at.row, p.M, k0, k1),
                 typename T::B(B + at.batch * p.batch_b, bs, p.ldb, at.column, p.N, k0, k1), as, bs, k0, k1);
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

// A few rows of A times a B whose K is contiguous (a linear layer's weight): each warp computes ROWS results of one
// column of C. K may be cut into parts, which `add_parts` adds.
template <int ROWS, int WIDE, int ACTIVATION>
__global__ void __launch_bounds__(256) dots(const float* A, const float* B, const float* bias, float* C, float* parts,
                                            const Problem p) {
    int lane = threadIdx.x % 32, split = blockIdx.x % p.splits;
    long long n = blockIdx.x / p.splits * 8ll + threadIdx.x / 32;
    long long batch = product_of_batch();
    if (n >= p.N || batch >= p.batch) return;
    A += batch * p.batch_a, B += batch * p.batch_b + n * p.ldb, C += batch * p.batch_c;
    if (bias) bias += batch * p.batch_bias;
    int k0 = split * p.each, k1 = min(p.K, k0 + p.each);
    float sum[ROWS] = {};
    int k = k0 + lane * WIDE;
#pragma unroll 4
    for (; k + WIDE <= k1; k += 32 * WIDE) {
        float b[WIDE], a[WIDE];
        if constexpr (WIDE == 4) *reinterpret_cast<float4*>(b) = *reinterpret_cast<const float4*>(B + k);
        else b[0] = B[k];
#pragma unroll
        for (int m = 0; m < ROWS; ++m) {
            if (m >= p.M) break;
            if constexpr (WIDE == 4) *reinterpret_cast<float4*>(a) = *reinterpret_cast<const float4*>(A + m * p.row_a + k);
            else a[0] = A[m * p.row_a + k];
#pragma unroll
            for (int j = 0; j < WIDE; ++j) sum[m] += a[j] * b[j];
        }
    }
    for (int j = k; j < k1 && j < k + WIDE; ++j)
#pragma unroll
        for (int m = 0; m < ROWS; ++m)
            if (m < p.M) sum[m] += A[m * p.row_a + j] * B[j];
#pragma unroll
    for (int m = 0; m < ROWS; ++m) {
        if (m >= p.M) break;
#pragma unroll
        for (int d = 16; d > 0; d /= 2) sum[m] += __shfl_xor_sync(~0u, sum[m], d);
        if (lane == 0) {
            if (p.splits == 1) finish<ACTIVATION>(C, bias, p, m, n, sum[m]);
            else parts[((batch * p.splits + split) * p.M + m) * p.N + n] = sum[m];
        }
    }
}

// A few rows of A times a B whose N is contiguous: each thread computes ROWS results of WIDE neighbouring columns. A
// passes through shared memory, so that no thread waits for it.
template <int ROWS, int WIDE, int ACTIVATION>
__global__ void __launch_bounds__(128) columns(const float* A, const float* B, const float* bias, float* C, float* parts,
                                               const Problem p) {
    constexpr int DEEP = 64;
    __shared__ float a[DEEP][ROWS];
    long long n = (blockIdx.x / p.splits * 128ll + threadIdx.x) * WIDE;
    long long batch = product_of_batch();
    int split = blockIdx.x % p.splits;
    if (batch >= p.batch) return;
    A += batch * p.batch_a, B += batch * p.batch_b + n, C += batch * p.batch_c;
    if (bias) bias += batch * p.batch_bias;
    int k0 = split * p.each, k1 = min(p.K, k0 + p.each);
    float sum[ROWS][WIDE] = {};
    for (; k0 < k1; k0 += DEEP) {
        int deep = min(DEEP, k1 - k0);
        __syncthreads();
        for (int i = threadIdx.x; i < DEEP * ROWS; i += 128) {
            int m = i / DEEP, k = i % DEEP;
            a[k][m] = m < p.M && k < deep ? A[m * p.row_a + (k0 + k) * p.column_a] : 0;
        }
        __syncthreads();
        if (n >= p.N) continue;
        auto step = [&](int k) {
            float b[WIDE];
            if constexpr (WIDE == 4) *reinterpret_cast<float4*>(b) = *reinterpret_cast<const float4*>(B + (k0 + k) * p.ldb);
            else b[0] = B[(k0 + k) * p.ldb];
#pragma unroll
            for (int m = 0; m < ROWS; ++m)
#pragma unroll
                for (int j = 0; j < WIDE; ++j) sum[m][j] += a[k][m] * b[j];
        };
        int k = 0;
        for (; k + 8 <= deep; k += 8)
#pragma unroll
            for (int u = 0; u < 8; ++u) step(k + u);
        for (; k < deep; ++k) step(k);
    }
    if (n >= p.N) return;
#pragma unroll
    for (int m = 0; m < ROWS; ++m) {
        if (m >= p.M) break;
#pragma unroll
        for (int j = 0; j < WIDE; ++j) {
            if (p.splits == 1) finish<ACTIVATION>(C, bias, p, m, n + j, sum[m][j]);
            else parts[((batch * p.splits + split) * p.M + m) * p.N + n + j] = sum[m][j];
        }
    }
}

// Adds the parts of K that `dots` and `columns` have stored, in order.
template <int ACTIVATION>
__global__ void __launch_bounds__(256) add_parts(const float* bias, float* C, const float* parts, const Problem p) {
    long long i = blockIdx.x * 256ll + threadIdx.x, batch = product_of_batch(), size = (long long)p.M * p.N;
    if (i >= size || batch >= p.batch) return;
    float sum = 0;
    for (int s = 0; s < p.splits; ++s) sum += parts[(batch * p.splits + s) * size + i];
    C += batch * p.batch_c;
    if (bias) bias += batch * p.batch_bias;
    finish<ACTIVATION>(C, bias, p, i / p.N, i % p.N, sum);
}
