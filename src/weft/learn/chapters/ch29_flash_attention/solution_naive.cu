// Attention of n queries to m keys, with 32 columns, by way of all scores.
__global__ void scores(const float* q, const float* k, float* s, int m) {
    int i = blockIdx.x;
    for (int j = threadIdx.x; j < m; j += 64) {
        float sum = 0;
        for (int c = 0; c < 32; c++) sum += q[i * 32 + c] * k[j * 32 + c];
        s[i * m + j] = sum * rsqrtf(32);
    }
}
__global__ void softmax(float* s, int m) {
    s += blockIdx.x * m;
    float most = -INFINITY, sum = 0;
    for (int j = threadIdx.x; j < m; j += 32) most = fmaxf(most, s[j]);
    for (int bit = 16; bit > 0; bit /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, bit));
    for (int j = threadIdx.x; j < m; j += 32) sum += expf(s[j] - most);
    for (int bit = 16; bit > 0; bit /= 2) sum += __shfl_xor_sync(~0u, sum, bit);
    for (int j = threadIdx.x; j < m; j += 32) s[j] = expf(s[j] - most) / sum;
}
__global__ void weigh(const float* s, const float* v, float* out, int m) {
    float sum = 0;
    for (int j = 0; j < m; j++) sum += s[blockIdx.x * m + j] * v[j * 32 + threadIdx.x];
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}
