// rung:   04 every length
// idea:   as many threads as a row needs: four rows share a block if they are short, and long ones
//         are in registers and shared memory of a whole SM. Elements stay packed between their
//         uses. Ragged rows are read in vectors that begin before and end after them. This is the
//         kernel of weft.ops.layer_norm
// precision: bf16
// expect: bytes read per result <= 6.1

#include "../../ops/families/norm/cuda/rows.cuh"

using T = __nv_bfloat16;

template <int G, int HELD, int SHARED>
__global__ void __launch_bounds__(G <= 32 ? 128 : G, BLOCKS_PER_SM<(G <= 32 ? 128 : G), HELD>)
    whole(const T* x, const T* w, const T* b, T* y, int rows, int n) {
    norm_rows<T, T, 8, false, G, HELD, SHARED, true, false, false, false>(
        x, nullptr, w, b, y, nullptr, nullptr, nullptr, rows, n, n, 1e-5f, 0, 1);
}

__global__ void __launch_bounds__(128)
    ragged(const T* x, const T* w, const T* b, T* y, int rows, int n) {
    norm_rows<T, T, 8, true, 32, 4, 0, true, false, true, false>(
        x, nullptr, w, b, y, nullptr, nullptr, nullptr, rows, n, n, 1e-5f, 0, 1);
}
