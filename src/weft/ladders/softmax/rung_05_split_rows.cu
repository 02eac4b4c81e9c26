// rung:   05 split rows
// idea:   several blocks share a long row: each keeps its piece in registers, publishes maximum and
//         sum, and waits for the others, while its next piece is loaded into shared memory. Short
//         rows use blocks of a few warps, so that many are in flight at once
// expect: bytes read per result = 4
// scratch: slots:u64[rows*cdiv(n,4096)] readers:u32[rows]

#include "short.cuh"
#include "split.cuh"

__global__ void __launch_bounds__(128, 7) longer(const float* x, float* y, int rows, int n,
                                                 unsigned long long* slots, unsigned* readers) {
    softmax_split<float, 128, 8>(x, y, rows, n, slots, readers);
}
