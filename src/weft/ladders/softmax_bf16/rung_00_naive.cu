// rung:   00 naive
// idea:   one thread per row, three passes
// precision: bf16
// bench:  rows=65536, n=1024
// launch: softmax<<<cdiv(rows, 64), 64>>>

#include <cuda_bf16.h>

__global__ void softmax(const __nv_bfloat16* x, __nv_bfloat16* y, int rows, int n) {
    int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    x += size_t(row) * n, y += size_t(row) * n;
    float most = x[0], sum = 0;
    for (int i = 1; i < n; ++i) {
        float v = x[i];
        most = v > most || v != v ? v : most;
    }
    for (int i = 0; i < n; ++i) sum += expf(float(x[i]) - most);
    for (int i = 0; i < n; ++i) y[i] = expf(float(x[i]) - most) / sum;
}
