// rung:   00 naive
// idea:   one thread per row, three passes: the maximum, the sum of exponentials, the gradient.
//         Adjacent threads read addresses that are a whole row apart
// expect: load sectors per request >= 3
// bench:  rows=65536, n=1024
// launch: cross_entropy<<<cdiv(rows, 64), 64>>>

#include <cuda_bf16.h>

using T = __nv_bfloat16;

__global__ void cross_entropy(const T* x, const long long* t, T* d, T* loss, int rows, int n) {
    int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    x += size_t(row) * n, d += size_t(row) * n;
    float most = __bfloat162float(x[0]), sum = 0;
    for (int i = 1; i < n; ++i) most = fmaxf(most, __bfloat162float(x[i]));
    for (int i = 0; i < n; ++i) sum += expf(__bfloat162float(x[i]) - most);
    int label = t[row];
    loss[row] = __float2bfloat16(logf(sum) + most - __bfloat162float(x[label]));
    for (int i = 0; i < n; ++i) {
        float p = expf(__bfloat162float(x[i]) - most) / sum;
        d[i] = __float2bfloat16(p - (i == label));
    }
}
