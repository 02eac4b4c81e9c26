// rung:   00 naive
// idea:   one thread per row, three passes: the maximum, the sum of exponentials, the result.
//         Adjacent threads read addresses that are a whole row apart
// expect: load sectors per request >= 6
// bench:  rows=65536, n=1024
// launch: softmax<<<cdiv(rows, 64), 64>>>

__global__ void softmax(const float* x, float* y, int rows, int n) {
    int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    x += size_t(row) * n, y += size_t(row) * n;
    float most = x[0], sum = 0;
    for (int i = 1; i < n; ++i) most = x[i] > most || x[i] != x[i] ? x[i] : most;
    for (int i = 0; i < n; ++i) sum += expf(x[i] - most);
    for (int i = 0; i < n; ++i) y[i] = expf(x[i] - most) / sum;
}
