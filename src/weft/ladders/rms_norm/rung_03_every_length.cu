// rung:   03 every length
// idea:   the kernel of weft.ops.add_rms_norm: as many threads as a row needs, so that short rows
//         need no barrier and share a block. Ragged rows are read in vectors that begin before and
//         end after them
// precision: bf16
// expect: bytes read per result <= 7

#include "../../ops/families/norm/cuda/rows.cuh"

using T = __nv_bfloat16;

template <int G, int HELD>
__global__ void __launch_bounds__(G <= 32 ? 128 : G, BLOCKS_PER_SM<(G <= 32 ? 128 : G), HELD>)
    rms_norm(const T* x, const T* r, const T* w, T* y, T* s, int rows, int n) {
    norm_rows<T, T, 8, false, G, HELD, 0, false, true, false, false>(
        x, r, w, nullptr, y, s, nullptr, nullptr, rows, n, n, 1e-6f, 0, 1);
}
