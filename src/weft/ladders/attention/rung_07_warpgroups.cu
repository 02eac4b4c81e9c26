// rung:   07 warpgroups
// idea:   Hopper's tensor cores take both operands from shared memory (wgmma), as in
//         FlashAttention-3 (Shah et al. 2024). One warpgroup copies keys and values, two others
//         have 64 queries each and take turns: the softmax of one overlaps with the products of the
//         other. This is the kernel of weft.ops.attention on Hopper; elsewhere mma.sync computes
//         the same products
// precision: bf16
// scratch: partial:f32[b*h*16*64*(d+1)] counters:i32[b*h+1]

#include "../../ops/families/attention/cuda/warpgroup_forward.cuh"
#include "rung_05_split_keys.cu"

template <int HEAD, int KEYS>
__global__ void __launch_bounds__(384, 1)
    groups(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* o,
           int* counters, int b, int h, int m, int s, int d) {
    attend_warpgroups<__nv_bfloat16, HEAD, KEYS, 2, 1, FREE, true>(
        q, k, v, nullptr, o, nullptr, nullptr, nullptr, counters, causal(b, h, m, s, d));
}
