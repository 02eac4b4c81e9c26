// Products of fp8 and of int8 for any GPU and any rows: C = (A scale_a) (B scale_b) + bias.
// Elements of fp8 become halves on their way to shared memory, which hold each of them; those of
// int8 stay as they are. mma.sync multiplies them.
#include <weft/convert.cuh>
#include <weft/mma.cuh>
#include <weft/wgmma_k_major.cuh>
#include "problem.cuh"

STRUCT_SCALES  // see scaled.py

    constexpr int TILE = 64,
                  ROW = 128, PITCH = ROW / 2 + 8, BLOCK = 128;  // ROW: bytes of K of a tile

// How an operand lies in shared memory: bytes of an element there, and what `mma.sync` adds to.
template <class E>
struct Staged {
    using Sum = float;
    static constexpr int BYTES = 2;
    static __device__ void multiply(float* c, const unsigned* a, const unsigned* b) {
        mma<__half>(c, a, b);
    }
};
template <>
struct Staged<signed char> {
    using Sum = int;
    static constexpr int BYTES = 1;
    static __device__ void multiply(int* c, const unsigned* a, const unsigned* b) {
        mma_int8(c, a, b);
    }
};

// Converts two elements in the lower bits of a word to halves, exactly.
template <class E>
__device__ unsigned halves(unsigned pair);
template <>
__device__ unsigned halves<E5m2>(unsigned pair) {
    return (pair & 0xff) << 8 | (pair & 0xff00) << 16;
}
template <>
__device__ unsigned halves<E4m3>(unsigned pair) {
    unsigned apart = (pair & 0xff) | (pair & 0xff00) << 8, size = apart & 0x7f007f;
    unsigned moved = (apart & 0x800080) << 8 | size << 7;  // 2^-8 of the number
    __half2 number = __hmul2(*reinterpret_cast<__half2*>(&moved), __float2half2_rn(256.0f));
    unsigned bits = *reinterpret_cast<unsigned*>(&number);
    if ((size & 0x7f) == 0x7f) bits |= 0x7fff;
    if (size >> 16 == 0x7f) bits |= 0x7fff0000;
    return bits;
}

// 64 rows from `row` on of an operand whose rows are `pitch` elements apart. A tile has DEPTH of K;
// a thread fetches its vectors before the tile before it is multiplied, and stores them after that.
// VECTORS: rows are whole vectors of 16 bytes.
template <class E, bool VECTORS>
struct StagedSide {
    static constexpr int DEPTH = ROW / Staged<E>::BYTES, COUNT = TILE * DEPTH / 16 / BLOCK,
                         ACROSS = DEPTH / 16, WORDS = 4 * Staged<E>::BYTES;  // of a vector

    const unsigned char* from;
    long long pitch;
    int row, rows, K;
    Vector<unsigned char, 16> fetched[COUNT];

    // What is outside is 0.
    __device__ void fetch(int k) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            int at = i * BLOCK + threadIdx.x, r = row + at / ACROSS, c = k + at % ACROSS * 16;
            const unsigned char* vector = from + r * pitch + c;
            fetched[i] = fill<16>(static_cast<unsigned char>(0));
            if (r >= rows || c >= K) continue;
            if constexpr (VECTORS) fetched[i] = load<16>(vector);
            else
#pragma unroll
                for (int j = 0; j < 16; ++j)
                    if (c + j < K) fetched[i][j] = vector[j];
        }
    }
    __device__ void store(unsigned (&tile)[TILE][PITCH / 2]) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            int at = i * BLOCK + threadIdx.x;
            const unsigned* words = reinterpret_cast<const unsigned*>(&fetched[i]);
#pragma unroll
            for (int j = 0; j < WORDS; ++j) {
                unsigned& to = tile[at / ACROSS][at % ACROSS * WORDS + j];
                if constexpr (Staged<E>::BYTES == 1) to = words[j];
                else to = halves<E>(words[j / 2] >> j % 2 * 16 & 0xffff);
            }
        }
    }
};

// A warp has 32 x 32 of the results. Sums of fp8 of 128 of K are multiplied by their scales and
// added; those of int8 have one scale for all K.
template <class A, class B, class T, bool VECTORS>
__global__ void __launch_bounds__(BLOCK)
    multiply(const A* a, const B* b, const float* scale_a, const float* scale_b, const T* bias,
             T* C, const __grid_constant__ Scales s, const __grid_constant__ Problem p) {
    using Sum = typename Staged<A>::Sum;
    constexpr int DEPTH = StagedSide<A, VECTORS>::DEPTH;
    constexpr bool ONE = Staged<A>::BYTES == 1;
    __shared__ __align__(16) unsigned left[TILE][PITCH / 2], right[TILE][PITCH / 2];
    int2 tile = tile_in_bands(blockIdx.x, p.tiles_m, p.tiles_n);
    int row = tile.x * TILE, column = tile.y * TILE;
    int warp_row = warp_index() / 2 * 32, warp_column = warp_index() % 2 * 32;
    float sums[2][4][4] = {};
    Sum of[2][4][4] = {};
    using Byte = const unsigned char*;
    StagedSide<A, VECTORS> of_a = {reinterpret_cast<Byte>(a), p.lda, row, p.M, p.K};
    StagedSide<B, VECTORS> of_b = {reinterpret_cast<Byte>(b), p.ldb, column, p.N, p.K};
    of_a.fetch(0), of_b.fetch(0);
    for (int k = 0; k < p.K; k += DEPTH) {
        of_a.store(left), of_b.store(right);
        __syncthreads();
        of_a.fetch(k + DEPTH), of_b.fetch(k + DEPTH);
#pragma unroll
        for (int part = 0; part < ROW / 4; part += 8) {
            unsigned rows[2][4], columns[2][4];
            for (int i = 0; i < 2; ++i) {
                load_matrices_x4(rows[i],
                                 shared_address(&left[warp_row + i * 16][part]) + 2 * a_row(PITCH));
                load_matrices_x4(columns[i], shared_address(&right[warp_column + i * 16][part]) +
                                                 2 * b_row(PITCH));
            }
            for (int i = 0; i < 2; ++i)
                for (int n = 0; n < 4; ++n)
                    Staged<A>::multiply(of[i][n], rows[i], columns[n / 2] + n % 2 * 2);
        }
        __syncthreads();
        if (k + DEPTH < p.K && (ONE || k % 128 == 0)) continue;
        // The scales of this block of K: those of 4 rows and 8 columns.
        int block = ONE ? 0 : k / 128;
        float of_rows[4], of_columns[8];
        for (int i = 0; i < 4; ++i) {
            int r = min(row + warp_row + i * 8 + c_row(0), p.M - 1);
            of_rows[i] = scale_a[(r >> s.rows) * s.row_a + block * s.k_a];
        }
        for (int i = 0; i < 8; ++i) {
            int c = min(column + warp_column + i / 2 * 8 + c_column(i % 2), p.N - 1);
            of_columns[i] = scale_b[(c >> s.columns) * s.column_b + block * s.k_b];
        }
        for (int i = 0; i < 2; ++i)
            for (int n = 0; n < 4; ++n)
                for (int j = 0; j < 4; ++j) {
                    float scale = of_rows[i * 2 + j / 2] * of_columns[n * 2 + j % 2];
                    sums[i][n][j] += float(of[i][n][j]) * scale;
                    of[i][n][j] = 0;
                }
    }
    for (int n = 0; n < 8; ++n) {
        int c = column + warp_column + n / 2 * 8 + c_column(n % 2);
        float added = bias && c < p.N ? to<float>(bias[c * p.column_bias]) : 0;
        for (int i = 0; i < 4; ++i) {
            int r = row + warp_row + i * 8 + c_row(0);
            float value = sums[i / 2][n / 2][i % 2 * 2 + n % 2] + added;
            if (r < p.M && c < p.N) C[r * p.row_c + c] = to<T>(value);
        }
    }
}
