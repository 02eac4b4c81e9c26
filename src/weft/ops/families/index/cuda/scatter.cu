// Sums of elements by index along one dimension. Except in `atomic`, no sum depends on timing: a
// thread adds all elements of a sum, in the order of their positions.
#include <assert.h>

#include <weft/convert.cuh>

#include "walk.cuh"

using namespace weft;

// For few positions along the dimension: a thread writes V neighbours of y along the innermost
// dimension, whose size is a multiple of V, and looks for theirs among `positions`. Operands of the
// walk: base (null: zeros), index and src without the indexed dimension, and the row of y.
template <class T, class S, class L, class I, int RANK, int V>
__global__ void __launch_bounds__(256)
    search(const T* base, const L* index, const T* src, T* y, I n, int positions, long long rows,
           I index_step, I src_step, const Walk<I, RANK, 4> walk) {
    I i = (I(blockIdx.x) * 256 + threadIdx.x) * V;
    if (i >= n) return;
    I at[4];
    walk.places(i, at);
    Vector<T, V> made;
#pragma unroll
    for (int k = 0; k < V; k++) {
        S sum = base ? to<S>(base[at[0] + k * walk.stride[0][0]]) : S(0);
        I row = at[3] + k * walk.stride[3][0];
#pragma unroll 4
        for (int j = 0; j < positions; j++) {
            long long wanted = index[at[1] + k * walk.stride[1][0] + j * index_step];
            if (row == 0)  // each index is checked once
                assert(wanted >= 0 && wanted < rows &&
                       "an index must be 0 to the size of the dimension - 1");
            if (wanted == row) sum += to<S>(src[at[2] + k * walk.stride[2][0] + j * src_step]);
        }
        made[k] = to<T>(sum);
    }
    store(y + i, made);
}

// For many lines along the dimension: a thread adds the `positions` of a line to `sums`. Operands
// of the walk over all lines: index, src and sums.
template <class T, class S, class L, class I, int RANK>
__global__ void __launch_bounds__(128)
    lines(const L* index, const T* src, S* sums, I n, int positions, long long rows, I index_step,
          I src_step, I step, const Walk<I, RANK, 3> walk) {
    I i = I(blockIdx.x) * 128 + threadIdx.x;
    if (i >= n) return;
    I at[3];
    walk.places(i, at);
    constexpr int AHEAD = 8;
    for (int j = 0; j < positions; j += AHEAD) {
        long long row[AHEAD];
        T value[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            int here = min(j + a, positions - 1);
            row[a] = index[at[0] + here * index_step];
            value[a] = src[at[1] + here * src_step];
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (j + a >= positions) break;
            assert(row[a] >= 0 && row[a] < rows &&
                   "an index must be 0 to the size of the dimension - 1");
            sums[at[2] + I(row[a]) * step] += to<S>(value[a]);
        }
    }
}

// atomicAdd has no signed version of 64 bits; sums that wrap around have the same bits.
template <class S>
__device__ void add_atomically(S* to, S value) {
    atomicAdd(to, value);
}
__device__ inline void add_atomically(long long* to, long long value) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

// Adds every element of src to its place in `sums`, in any order: a thread adds U elements, 256
// apart. Operands of the walk over the index: index, src, and sums without the indexed dimension.
template <class T, class S, class L, class I, int RANK, int U>
__global__ void __launch_bounds__(256) atomic(const L* index, const T* src, S* sums, I n,
                                              long long rows, I step, const Walk<I, RANK, 3> walk) {
    I first = I(blockIdx.x) * (256 * U) + threadIdx.x;
    L row[U];
    T value[U];
    I to_line[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
        I i = first + u * 256;
        if (i >= n) continue;
        I at[3];
        walk.places(i, at);
        row[u] = index[at[0]];
        value[u] = src[at[1]];
        to_line[u] = at[2];
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
        if (first + u * 256 >= n) continue;
        assert(row[u] >= 0 && row[u] < rows &&
               "an index must be 0 to the size of the dimension - 1");
        add_atomically(sums + to_line[u] + I(row[u]) * step, to<S>(value[u]));
    }
}

// The place in y of each element of src, for a sort. Operands of the walk over the index: index,
// and y without the indexed dimension.
template <class L, class I, int RANK>
__global__ void __launch_bounds__(256) keys(const L* index, long long* keys, I n, long long rows,
                                            I step, const Walk<I, RANK, 2> walk) {
    I i = I(blockIdx.x) * 256 + threadIdx.x;
    if (i >= n) return;
    I at[2];
    walk.places(i, at);
    long long row = index[at[0]];
    assert(row >= 0 && row < rows && "an index must be 0 to the size of the dimension - 1");
    keys[i] = at[1] + row * step;
}
