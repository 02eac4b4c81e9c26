// rung:   05 split keys
// idea:   one query per head leaves most SMs idle: 64 blocks for 132 SMs, each of which reads
//         32,768 keys. So the keys of a head are split among blocks, and the last block of a head
//         combines their results, weighted by their sums (flash-decoding). This is the kernel of
//         weft.ops.attention
// precision: bf16
// scratch: partial:f32[b*h*16*64*(d+1)] counters:i32[b*h]
// expect: shared load wavefronts per request <= 4.5

#include "rung_04_tensor_cores.cu"

template <int HEAD>
__global__ void __launch_bounds__(128)
    split(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* o,
          float* partial, int* counters, int b, int h, int m, int s, int d) {
    attend_tile<__nv_bfloat16, HEAD, 64, 64, 4, 2, FREE, true>(q, k, v, nullptr, o, nullptr,
                                                               nullptr, nullptr, partial, counters,
                                                               causal(b, h, m, s, d, 16));
}
