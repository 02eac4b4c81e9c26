// rung:   05 tensor cores
// idea:   the products run on tensor cores (mma.sync), as in FlashAttention-2. A warp holds 32 queries,
//         and their scores and results stay in registers; tiles of keys and values arrive by cp.async
//         while the last ones are used. Tiles that the mask hides are skipped. This is the kernel of
//         weft.ops.attention
// precision: bf16
// launch: attention<32, 64><<<cdiv(s, 64) * b * h if d == 32 else 0, 128, 25600>>>
// launch: attention<128, 128><<<cdiv(s, 128) * b * h if d == 128 else 0, 128, 104448>>>
// expect: shared load wavefronts per request <= 4.5

#include "../../ops/cuda/attention/forward.cuh"

template <int HEAD, int QUERIES>
__global__ void __launch_bounds__(128) attention(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                                                 __nv_bfloat16* o, int b, int h, int s, int d) {
    Strides rows = {1ll * h * s * d, 1ll * s * d, d};
    Problem p = {};
    p.q = p.k = p.v = p.o = rows;
    p.batch = b, p.heads = h, p.group = 1, p.rows = p.keys = s, p.depth = p.width = d;
    p.causal = p.pack = p.parts = 1, p.scale = LOG2E * rsqrtf(d);
    p.together = max(1, (25 << 20) / (4 * s * d));  // heads whose keys and values L2 holds
    attend_tile<__nv_bfloat16, HEAD, QUERIES, 64, 4, 2, FREE, true, false>(q, k, v, nullptr, o, nullptr, nullptr, nullptr,
                                                                          nullptr, nullptr, p);
}
