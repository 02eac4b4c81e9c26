// rung:   08 boxes
// idea:   a warp copies tiles by TMA, a box at a time, so that no thread computes addresses, and
//         three warpgroups that have 64 queries each multiply; a warpgroup issues the first
//         scores of its next queries with the last products of the ones before. As many blocks
//         as SMs draw their work from a counter. This is the kernel of weft.ops.attention on
//         Hopper for heads of 128
// precision: bf16
// needs:  sm_90
// map:    queries = q:0213[1, 64, 1, 64] swizzle 128
// map:    keys = k[1, 1, 80, 64] swizzle 128
// map:    values = v[1, 1, 80, 64] swizzle 128
// scratch: partial:f32[b*h*16*64*(d+1)] counters:i32[b*h+2]

#include "../../ops/families/attention/cuda/tma_forward.cuh"
#include "rung_05_split_keys.cu"

template <int HEAD>
__global__ void __launch_bounds__(512, 1)
    units(const __grid_constant__ TensorMap queries, const __grid_constant__ TensorMap keys,
          const __grid_constant__ TensorMap values, __nv_bfloat16* o, int* counters, int b, int h,
          int m, int s, int d) {
    int in_head = (m + 191) / 192;
    constexpr int STAGES = HEAD == 32 ? 2 : 3, SLOTS = HEAD == 32 ? 2 : 1;
    attend_units<__nv_bfloat16, HEAD, 80, 3, STAGES, SLOTS, FREE, 0, false, 1, false, false, false,
                 1>(queries, keys, values, queries, queries, nullptr, o, nullptr, nullptr, nullptr,
                    nullptr, counters, causal(b, h, m, s, d),
                    Units{64, min(3, (m + 63) / 64), in_head, h, in_head * b * h});
}
