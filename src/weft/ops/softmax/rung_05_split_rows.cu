// rung:   05 split rows
// idea:   a long row is shared by several blocks: each keeps its piece in registers, publishes maximum
//         and sum, and waits for the others. Blocks start in order, so those of one row run
//         together. Short rows get blocks of a few warps, so that many rows are under way at once
// expect: bytes read per result = 4
// scratch: slots:u64[rows*cdiv(n,8192)] arrived:u32[rows]
// clear:  arrived
// launch: of_1024<<<rows if (n <= 1024) * (n % 4 == 0) else 0, 32>>>
// launch: of_4096<<<rows if (n > 1024) * (n <= 4096) * (n % 4 == 0) else 0, 128>>>
// launch: of_8192<<<rows * cdiv(n, 8192) if (n > 4096) * (n % 4 == 0) else 0, 256>>>
// launch: ragged<<<rows if n % 4 > 0 else 0, 256>>>

#include "row.cuh"

__global__ void __launch_bounds__(32) of_1024(const float* x, float* y, int n) {
    softmax_row<float, 32, 8>(x, y, n, 1, nullptr, nullptr);
}

__global__ void __launch_bounds__(128) of_4096(const float* x, float* y, int n) {
    softmax_row<float, 128, 8>(x, y, n, 1, nullptr, nullptr);
}

__global__ void __launch_bounds__(256) of_8192(const float* x, float* y, int n,
                                               unsigned long long* slots, unsigned* arrived) {
    softmax_row<float, 256, 8>(x, y, n, (n + 8191) / 8192, reinterpret_cast<float2*>(slots), arrived);
}

__global__ void __launch_bounds__(256) ragged(const float* x, float* y, int n) {
    softmax_any<float, 256>(x, y, n);
}
