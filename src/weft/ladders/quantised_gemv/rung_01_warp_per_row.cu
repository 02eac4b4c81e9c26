// rung:   01 warp per row
// idea:   a warp per row, and 32 weights in one load of 16 bytes: neighbouring lanes read
//         neighbouring bytes, and a load brings 512 of them
// precision: bf16
// launch: gemv<<<cdiv(N, 8), 256>>>

#include <cuda_bf16.h>

__global__ void gemv(const __nv_bfloat16* x, const unsigned char* w, const float* s,
                     __nv_bfloat16* y, int N, int G) {
    int n = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (n >= N) return;
    w += size_t(n) * G * 64, s += size_t(n) * G;
    float sum = 0;
    for (int begin = 0; begin < G * 4; begin += 32) {
        int i = begin + lane;
        float part = 0;
        if (i < G * 4) {
            uint4 from = reinterpret_cast<const uint4*>(w)[i];
            unsigned words[4] = {from.x, from.y, from.z, from.w};
            const __nv_bfloat16* of = x + i * 32;
            for (int j = 0; j < 32; ++j)
                part += float(of[j]) * (int(words[j / 8] >> j % 8 * 4 & 15) - 8);
        }
        // Four lanes have a group, which is multiplied by its scale once.
        for (int d = 1; d < 4; d *= 2) part += __shfl_xor_sync(~0u, part, d);
        if (i < G * 4 && lane % 4 == 0) sum += part * s[i / 4];
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (lane == 0) y[n] = sum;
}
