// Elements by index along one dimension.
#include <assert.h>

#include <weft/convert.cuh>

#include "walk.cuh"

using namespace weft;

// y has the shape of the index; operands of the walk: x without its indexed dimension, and index.
// A thread writes V neighbours along the innermost dimension, whose size is a multiple of V.
// ROWS: they have one index and are neighbours in x. LINEAR: index has the order of y.
template <class T, class L, class I, int RANK, int V, bool ROWS, bool LINEAR>
__global__ void __launch_bounds__(256) gather(const T* x, const L* index, T* y, I n, long long rows,
                                              I step, const Walk<I, RANK, 2> walk) {
    I i = (I(blockIdx.x) * 256 + threadIdx.x) * V;
    if (i >= n) return;
    I at[2];
    walk.places(i, at);
    if constexpr (ROWS) {
        long long row = index[at[1]];
        assert(row >= 0 && row < rows && "an index must be 0 to the size of the dimension - 1");
        store(y + i, load<V>(x + at[0] + I(row) * step));
    } else {
        Vector<L, V> found;
        if constexpr (LINEAR) {
            found = load<V>(index + i);
        } else {
#pragma unroll
            for (int k = 0; k < V; k++) found[k] = index[at[1] + k * walk.stride[1][0]];
        }
        Vector<T, V> made;
#pragma unroll
        for (int k = 0; k < V; k++) {
            long long row = found[k];
            assert(row >= 0 && row < rows && "an index must be 0 to the size of the dimension - 1");
            made[k] = x[at[0] + k * walk.stride[0][0] + I(row) * step];
        }
        store(y + i, made);
    }
}
