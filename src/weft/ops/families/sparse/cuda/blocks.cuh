// The walk over the blocks of a row of a block-sparse matrix, and copies of their elements.
#pragma once
#include <assert.h>
#include <weft/async.cuh>
#include <weft/convert.cuh>
#include <weft/mma.cuh>
#include <weft/problem.cuh>
#include <weft/vector.cuh>

using namespace weft;

STRUCT_BLOCKSIZES;  // see blocks.py

// The steps of a row of blocks of SIZE x SIZE elements: each has STEP of the K of a block.
template <class I, int SIZE, int STEP>
struct BlockSteps {
    static constexpr int EACH = SIZE / STEP;
    const I* col;
    long long first;  // block
    int count;

    __device__ BlockSteps(const I* crow, const I* col, int row)
        : col(col), first(crow[row]), count(int(crow[row + 1] - first) * EACH) {}

    __device__ long long block(int step) const { return first + step / EACH; }
    __device__ static int within(int step) { return step % EACH * STEP; }
    // The row of the dense operand that a step begins with.
    __device__ long long dense_row(int step, const BlockSizes& s) const {
        long long at = col[block(step)];
        assert(at >= 0 && at < s.inner / SIZE);
        return at * SIZE + within(step);
    }
};

// Copies ROWS rows of COLUMNS elements, `pitch` apart, to `place(row, vector)`, an address of 16
// bytes; of these, `inside` columns are in the matrix, and the others become 0. WHOLE: rows begin
// at multiples of 16 bytes.
template <int ROWS, int COLUMNS, int THREADS, bool WHOLE, class T, class Place>
__device__ void copy_rows(const T* from, long long pitch, int inside, Place place) {
    constexpr int VECTOR = 16 / sizeof(T), ACROSS = COLUMNS / VECTOR;
    for (int i = threadIdx.x; i < ROWS * ACROSS; i += THREADS) {
        int row = i / ACROSS, vector = i % ACROSS, column = vector * VECTOR;
        const T* at = from + row * pitch + column;
        if constexpr (WHOLE) {
            copy_async<16>(place(row, vector), column < inside ? at : from, column < inside);
        } else {
            Vector<T, VECTOR> x;
#pragma unroll
            for (int j = 0; j < VECTOR; ++j) x[j] = column + j < inside ? at[j] : to<T>(0.0f);
            *reinterpret_cast<Vector<T, VECTOR>*>(__cvta_shared_to_generic(place(row, vector))) = x;
        }
    }
}
