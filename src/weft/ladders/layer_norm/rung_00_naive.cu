// rung:   00 naive
// idea:   one thread per row, three passes: the mean, the variance, the result. Adjacent threads
//         read addresses that are a whole row apart
// precision: bf16
// expect: load sectors per request >= 4
// bench:  rows=65536, n=1024
// launch: layer_norm<<<cdiv(rows, 64), 64>>>

#include <cuda_bf16.h>

__global__ void layer_norm(const __nv_bfloat16* x, const __nv_bfloat16* w, const __nv_bfloat16* b,
                           __nv_bfloat16* y, int rows, int n) {
    int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    x += size_t(row) * n, y += size_t(row) * n;
    float mean = 0, squares = 0;
    for (int i = 0; i < n; ++i) mean += float(x[i]);
    mean /= n;
    for (int i = 0; i < n; ++i) squares += (float(x[i]) - mean) * (float(x[i]) - mean);
    float rstd = rsqrtf(squares / n + 1e-5f);
    for (int i = 0; i < n; ++i)
        y[i] = __float2bfloat16((float(x[i]) - mean) * rstd * float(w[i]) + float(b[i]));
}
