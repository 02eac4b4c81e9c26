// The softmax of each row. One warp for each row.
__global__ void softmax(const float* x, float* y, int n) {
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    float most = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) most = fmaxf(most, x[i]);
    for (int k = 16; k > 0; k /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, k));
    for (int i = threadIdx.x; i < n; i += 32) sum += expf(x[i] - most);
    for (int k = 16; k > 0; k /= 2) sum += __shfl_xor_sync(0xffffffff, sum, k);
    for (int i = threadIdx.x; i < n; i += 32) y[i] = expf(x[i] - most) / sum;
}
