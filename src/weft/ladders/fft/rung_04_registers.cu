// rung:   04 registers
// idea:   a thread transforms up to 16 elements in registers: radix 16 needs a fourth of the
//         passes, barriers and trips through shared memory. The first pass reads global memory, the
//         last one writes it
// expect: shared bank conflicts > 0

#include "rows.cuh"

template <class S, class M>
__global__ void __launch_bounds__(S::T)
    fft(const float* x, const float* staged, float* y, int rows) {
    transform_rows<S, M>(x, staged, y, rows);
}
