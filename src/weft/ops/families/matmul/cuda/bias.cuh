// The bias of a warp's part of a tile: it is fetched before the products and added after them.
#pragma once
#include <weft/convert.cuh>
#include <weft/mma.cuh>
#include "problem.cuh"

// Which elements of C share an element of the bias.
enum BiasKind { NO_BIAS, COLUMN_BIAS, ROW_BIAS, EACH_BIAS };

// The bias of 16 rows and COLUMNS columns. Loads one by one between the products and the stores
// would take a third of the time of a tile with a short K.
template <class T, int KIND, int COLUMNS>
struct TileBias {
    static constexpr int OF_LANE = KIND == COLUMN_BIAS ? ceil_div(COLUMNS, 32) : 1;

    const T* bias;
    T* mine;  // COLUMN_BIAS: shared memory of the warp
    T of_columns[OF_LANE];
    float of_rows[2];

    // Fetches it for the rows from r0 and the columns from c0 on.
    __device__ void fetch(const T* from, T* shared, const Problem& p, int r0, int c0) {
        bias = from, mine = shared;
        if constexpr (KIND == COLUMN_BIAS) {
#pragma unroll
            for (int i = 0; i < OF_LANE; ++i) {
                int column = c0 + i * 32 + lane_index();
                of_columns[i] = column < p.N ? from[column * p.column_bias] : to<T>(0.0f);
            }
        }
        if constexpr (KIND == ROW_BIAS) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int row = r0 + c_row(i * 2);
                of_rows[i] = row < p.M ? to<float>(from[row * p.row_bias]) : 0;
            }
        }
    }
    // Puts that of the columns where all lanes read it.
    __device__ void share() {
        if constexpr (KIND == COLUMN_BIAS) {
            __syncwarp();  // that of the tile before has been read
#pragma unroll
            for (int i = 0; i < OF_LANE; ++i)
                if (i * 32 + lane_index() < COLUMNS) mine[i * 32 + lane_index()] = of_columns[i];
            __syncwarp();
        }
    }
    // What is stored at `at` for results that were rounded.
    template <int N>
    __device__ Vector<T, N> stored(const T* at, const Vector<T, N>& v) const {
        return v;
    }
    // Adds it to results of columns from `offset` of the part on, which starts at (r0, c0) of C.
    __device__ void add(float (&value)[4], const Problem& p, int r0, int c0, int offset) const {
        if constexpr (KIND == COLUMN_BIAS) {
            Vector<T, 2> pair = load<2>(mine + offset + c_column(0));
#pragma unroll
            for (int i = 0; i < 4; ++i) value[i] += to<float>(pair[i % 2]);
        }
        if constexpr (KIND == ROW_BIAS) {
#pragma unroll
            for (int i = 0; i < 4; ++i) value[i] += of_rows[i / 2];
        }
        if constexpr (KIND == EACH_BIAS) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                int row = r0 + c_row(i), column = c0 + offset + c_column(i);
                if (row < p.M && column < p.N)
                    value[i] += to<float>(bias[row * p.row_bias + column * p.column_bias]);
            }
        }
    }
};
