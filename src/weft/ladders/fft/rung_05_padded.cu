// rung:   05 padded
// idea:   a free element after every 16 spreads the strided stores over all banks, short rows share
//         a block, and a bound on registers keeps several blocks on an SM. These are the stages of
//         weft.ops.fft
// expect: shared bank conflicts = 0

#include "rows.cuh"

template <class S, class M>
__global__ void __launch_bounds__(S::T* M::C, S::resident(S::T* M::C))
    fft(const float* x, const float* staged, float* y, int rows) {
    transform_rows<S, M>(x, staged, y, rows);
}
