// rung:   04 loads in flight
// idea:   memory answers after about a microsecond, so a warp asks for two steps of weights before
//         it multiplies the first one: bytes under way are what bandwidth times latency needs
// precision: bf16
// needs:  sm_80
// launch: gemv<<<cdiv(N, 16), 256>>>

#include "gemv.cuh"

__global__ void __launch_bounds__(256) gemv(const __nv_bfloat16* x, const unsigned char* w,
                                            const float* s, __nv_bfloat16* y, int N, int G) {
    gemv_tensor<2>(x, w, s, y, N, G);
}
