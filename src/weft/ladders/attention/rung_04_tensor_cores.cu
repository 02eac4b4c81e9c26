// rung:   04 tensor cores
// idea:   the products run on tensor cores (mma.sync), as in FlashAttention-2 (Dao 2023). A warp
//         holds 32 queries, and their scores, weights and results stay in registers; tiles of keys
//         and values arrive by cp.async while the last ones are used
// precision: bf16
// expect: shared load wavefronts per request <= 4.5

#include "../../ops/families/attention/cuda/forward.cuh"
#include "problem.cuh"

template <int HEAD, int QUERIES, int KEYS>
__global__ void __launch_bounds__(128)
    attention(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
              __nv_bfloat16* o, int b, int h, int m, int s, int d) {
    attend_tile<__nv_bfloat16, HEAD, QUERIES, KEYS, 4, 2, FREE, false>(
        q, k, v, nullptr, o, nullptr, nullptr, nullptr, nullptr, nullptr, causal(b, h, m, s, d));
}
