// rung:   06 last block
// idea:   one launch and no memset: blocks leave their sums in memory, and the one that finishes last
//         adds them up. No atomic touches the sum, so that the order of all additions is fixed and
//         the answer is the same bits each time
// scratch: partial:f32[8*sms] finished:u32[1]
// launch: reduce<<<max(1, min(cdiv(n, 16384), 2 * sms)), 512>>>

#include "fold.cuh"

struct Sum {
    using Value = float;
    static __device__ float identity() { return 0; }
    static __device__ float of(float v, size_t) { return v; }
    static __device__ float join(float a, float b) { return a + b; }
    static __device__ float shuffle(float v, int d) { return __shfl_xor_sync(~0u, v, d); }
    static __device__ float load(const float* p) { return __ldcg(p); }
};

__global__ void __launch_bounds__(512) reduce(const float* x, float* y, size_t n, float* partial,
                                              unsigned* finished) {
    float sum;
    bool last;
    fold_all<Sum, 512, 8>(x, n, partial, finished, sum, last);
    if (last && threadIdx.x == 0) *y = sum;
}
