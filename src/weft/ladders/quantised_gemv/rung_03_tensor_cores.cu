// rung:   03 tensor cores
// idea:   weights become pairs of bfloat16, the last bits of 128, and tensor cores multiply them.
//         One token needs one of the eight columns of their operand; the others take seven more
//         slices of x, so that all lanes of a warp read neighbours. Two rows share an x
// precision: bf16
// needs:  sm_80
// expect: bytes read per result < 120
// launch: gemv<<<cdiv(N, 16), 256>>>

#include "gemv.cuh"

__global__ void __launch_bounds__(256) gemv(const __nv_bfloat16* x, const unsigned char* w,
                                            const float* s, __nv_bfloat16* y, int N, int G) {
    gemv_tensor<1>(x, w, s, y, N, G);
}
