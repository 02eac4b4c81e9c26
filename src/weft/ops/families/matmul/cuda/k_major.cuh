// Elements of 8 and of 32 bits for the tiles of pipelined.cuh, and stores of results in single
// precision. Both operands have neighbours along K.
#pragma once
#include <weft/wgmma_int8.cuh>
#include <weft/wgmma_k_major.cuh>
#include "pipelined.cuh"
#include "store.cuh"

// Numbers in single precision: they are multiplied in tf32.
template <>
struct Elements<float> {
    using Sum = float;
    static constexpr int STEP = 32;

    template <bool A_COLUMNS, bool B_COLUMNS, int N>
    static __device__ void multiply(float (&c)[N][4], unsigned long long a, unsigned long long b,
                                    bool accumulate) {
        static_assert(!A_COLUMNS && !B_COLUMNS, "K is contiguous");
        wgmma_k_major<Tf32, Tf32>(c, a, b, accumulate);
    }
};

// A product of two kinds of fp8: E4m3 or E5m2.
template <class A, class B>
struct Fp8;

template <class A, class B>
struct Elements<Fp8<A, B>> {
    using Sum = float;
    static constexpr int STEP = 128;

    template <bool A_COLUMNS, bool B_COLUMNS, int N>
    static __device__ void multiply(float (&c)[N][4], unsigned long long a, unsigned long long b,
                                    bool accumulate) {
        static_assert(!A_COLUMNS && !B_COLUMNS, "K is contiguous");
        wgmma_k_major<A, B>(c, a, b, accumulate);
    }
};

// Integers of 8 bits, whose sums are exact.
template <>
struct Elements<signed char> {
    using Sum = int;
    static constexpr int STEP = 128;

    template <bool A_COLUMNS, bool B_COLUMNS, int N>
    static __device__ void multiply(int (&c)[N][4], unsigned long long a, unsigned long long b,
                                    bool accumulate) {
        static_assert(!A_COLUMNS && !B_COLUMNS, "K is contiguous");
        wgmma_int8(c, a, b, accumulate);
    }
};

// Results in single precision are stored from registers: four lanes, or eight of a column, fill a
// sector of 32 bytes.
template <bool TRANSPOSED, bool WHOLE, int ACTIVATION, int ROW_WIDTH>
struct ResultStore<float, TRANSPOSED, WHOLE, ACTIVATION, ROW_WIDTH> {
    static constexpr int ELEMENTS = 0;

    template <int N, class Bias>
    static __device__ void store(const float (&of)[N][4], float*, float* C, const Bias& bias,
                                 const Problem& p, int r0, int c0) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            float value[4] = {of[n][0], of[n][1], of[n][2], of[n][3]};
            bias.add(value, p, r0, c0, n * 8);
#pragma unroll
            for (int i = 0; i < 4; ++i) value[i] = activated<ACTIVATION>(value[i]);
            int column = c0 + n * 8 + c_column(0);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                int row = r0 + c_row(half * 2);
                float* to = C + row * p.row_c + column * p.column_c;
                if (row >= p.M) continue;
                if constexpr (WHOLE && !TRANSPOSED) {
                    if (column < p.N)
                        store_whole(to, Vector<float, 2>{value[half * 2], value[half * 2 + 1]});
                } else {
                    if (column < p.N) to[0] = value[half * 2];
                    if (column + 1 < p.N) to[p.column_c] = value[half * 2 + 1];
                }
            }
        }
    }
};
