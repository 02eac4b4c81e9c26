// rung:   00 naive
// idea:   one thread per row of the weight, byte by byte: two weights, each less 8
// precision: bf16
// launch: gemv<<<cdiv(N, 64), 64>>>

#include <cuda_bf16.h>

__global__ void gemv(const __nv_bfloat16* x, const unsigned char* w, const float* s,
                     __nv_bfloat16* y, int N, int G) {
    int n = blockIdx.x * 64 + threadIdx.x;
    if (n >= N) return;
    w += size_t(n) * G * 64, s += size_t(n) * G;
    float sum = 0;
    for (int g = 0; g < G; ++g) {
        float part = 0;
        for (int i = 0; i < 64; ++i) {
            int two = w[g * 64 + i], k = g * 128 + i * 2;
            part += float(x[k]) * (two % 16 - 8) + float(x[k + 1]) * (two / 16 - 8);
        }
        sum += part * s[g];
    }
    y[n] = sum;
}
