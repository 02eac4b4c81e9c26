// The gradient of the queries; weights are computed again from the log-sum-exp.
const int WIDTH = 16;

__global__ void backward(const float* q, const float* k, const float* v, const float* out,
                         const float* lse, const float* dout, float* dq, int n, int m) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    float query[WIDTH], upstream[WIDTH], sums[WIDTH] = {}, delta = 0;
    for (int c = 0; c < WIDTH; c++) {
        query[c] = q[i * WIDTH + c];
        upstream[c] = dout[i * WIDTH + c];
        delta += upstream[c] * out[i * WIDTH + c];
    }
    for (int j = 0; j < m; j++) {
        float score = 0, dp = 0;
        for (int c = 0; c < WIDTH; c++) {
            score += query[c] * k[j * WIDTH + c];
            dp += upstream[c] * v[j * WIDTH + c];
        }
        float ds = expf(score / 4 - lse[i]) * (dp - delta) / 4;
        for (int c = 0; c < WIDTH; c++) sums[c] += ds * k[j * WIDTH + c];
    }
    for (int c = 0; c < WIDTH; c++) dq[i * WIDTH + c] = sums[c];
}
