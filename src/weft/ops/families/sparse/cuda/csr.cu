// Products of a sparse matrix in CSR form and a dense one: out[M][N] = A dense[K][N].
//
// A block computes ROWS rows and 32 VECTOR columns. Its warps take short rows one after another, so
// that rows of any lengths share them; then all warps share each long row.
#include <assert.h>
#include <weft/convert.cuh>
#include <weft/vector.cuh>
#include <weft/warp.cuh>

using namespace weft;

STRUCT_CSRSIZES;  // see csr.py

// Adds the products of nonzeros from `begin` to `end`, for the VECTOR columns of a lane.
template <int VECTOR, class T, class I>
__device__ void add_products(float (&sums)[VECTOR], const I* col, const T* values, const T* dense,
                             const CsrSizes& s, long long begin, long long end, int column) {
    for (; begin < end; begin += 32) {
        int count = int(min(end - begin, 32LL)), lane = lane_index();
        long long row = lane < count ? col[begin + lane] : 0;
        float value = lane < count ? to<float>(values[begin + lane]) : 0;
        assert(row >= 0 && row < s.inner);
#pragma unroll 4
        for (int j = 0; j < count; ++j) {
            long long from = shuffle(row, j);
            float factor = shuffle(value, j);
            if (column < s.columns) {
                Vector<T, VECTOR> x = load<VECTOR>(dense + from * s.columns + column);
#pragma unroll
                for (int i = 0; i < VECTOR; ++i) sums[i] += factor * to<float>(x[i]);
            }
        }
    }
}

template <int VECTOR, class T>
__device__ void store_row(T* out, const float (&sums)[VECTOR], const CsrSizes& s, long long row,
                          int column) {
    Vector<T, VECTOR> rounded;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) rounded[i] = to<T>(sums[i]);
    if (column < s.columns) store(out + row * s.columns + column, rounded);
}

template <class T, class I, int VECTOR, int WARPS, int ROWS, int LONG>
__global__ void __launch_bounds__(WARPS * 32)
    csr_rows(const I* crow, const I* col, const T* values, const T* dense, T* out,
             const __grid_constant__ CsrSizes s) {
    constexpr int WIDTH = 32 * VECTOR;
    __shared__ int next;
    __shared__ float parts[WARPS][WIDTH];
    long long first = blockIdx.x * (long long)ROWS;
    int rows = int(min(s.rows - first, (long long)ROWS));
    int warp = warp_index(), column = blockIdx.y * WIDTH + lane_index() * VECTOR;
    if (threadIdx.x == 0) next = 0;
    __syncthreads();
    bool some_long = false;
    for (;;) {
        int row = lane_index() == 0 ? atomicAdd(&next, 1) : 0;
        row = shuffle(row, 0);
        if (row >= rows) break;
        long long begin = crow[first + row], end = crow[first + row + 1];
        if (end - begin > LONG) {
            some_long = true;
            continue;
        }
        float sums[VECTOR] = {};
        add_products<VECTOR>(sums, col, values, dense, s, begin, end, column);
        store_row<VECTOR>(out, sums, s, first + row, column);
    }
    if (!__syncthreads_or(some_long)) return;
    for (int row = 0; row < rows; ++row) {
        long long begin = crow[first + row], end = crow[first + row + 1], count = end - begin;
        if (count <= LONG) continue;
        float sums[VECTOR] = {};
        add_products<VECTOR>(sums, col, values, dense, s, begin + count * warp / WARPS,
                             begin + count * (warp + 1) / WARPS, column);
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) parts[warp][lane_index() * VECTOR + i] = sums[i];
        __syncthreads();
        if (warp == 0) {
#pragma unroll
            for (int i = 0; i < VECTOR; ++i)
#pragma unroll
                for (int other = 1; other < WARPS; ++other)
                    sums[i] += parts[other][lane_index() * VECTOR + i];
            store_row<VECTOR>(out, sums, s, first + row, column);
        }
        __syncthreads();
    }
}
