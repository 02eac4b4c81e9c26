// rung:   03 one head per block
// idea:   a block has 64 queries of one head, and its tiles of 32 keys and values in shared memory
//         serve all of them. A thread has 4 x 2 scores and 4 rows of the result in registers
// precision: bf16
// expect: bytes read per result <= 20

#include "../../ops/families/attention/cuda/fp32.cuh"
#include "problem.cuh"

template <int HEAD>
__global__ void __launch_bounds__(256)
    attention(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
              __nv_bfloat16* o, int b, int h, int m, int s, int d) {
    attend_floats<__nv_bfloat16, HEAD, FREE>(q, k, v, nullptr, o, nullptr, nullptr, nullptr,
                                             causal(b, h, m, s, d));
}
