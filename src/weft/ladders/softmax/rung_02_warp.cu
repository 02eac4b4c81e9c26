// rung:   02 warp
// idea:   one warp per row: shuffles instead of trees, and no barriers
// launch: softmax<<<cdiv(rows, 8), 256>>>

__device__ float larger(float a, float b) { return a > b || a != a ? a : b; }

__global__ void softmax(const float* x, float* y, int rows, int n) {
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    x += size_t(row) * n, y += size_t(row) * n;
    float most = __int_as_float(0xff800000), sum = 0;
    for (int i = lane; i < n; i += 32) most = larger(x[i], most);
    for (int d = 16; d > 0; d /= 2) most = larger(most, __shfl_xor_sync(~0u, most, d));
    for (int i = lane; i < n; i += 32) sum += expf(x[i] - most);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    for (int i = lane; i < n; i += 32) y[i] = expf(x[i] - most) / sum;
}
