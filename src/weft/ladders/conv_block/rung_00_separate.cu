// rung:   00 separate
// idea:   one kernel per layer, as PyTorch calls them: convolution, batch norm, ReLU and pooling.
//         Each writes its result to memory for the next; the convolution has one thread per pixel
// scratch: y:f32[4*N*K*P*Q]
// launch: convolve<<<cdiv(4*N*K*P*Q, 256), 256>>>
// launch: normalise<<<cdiv(4*N*K*P*Q, 256), 256>>>
// launch: activate<<<cdiv(4*N*K*P*Q, 256), 256>>>
// launch: pool<<<cdiv(N*K*P*Q, 256), 256>>>

__global__ void convolve(const float* x, const float* w, float* y, int N, int C, int P, int Q,
                         int K) {
    int i = blockIdx.x * 256 + threadIdx.x, H = 2 * P, W = 2 * Q;
    if (i >= N * K * H * W) return;
    int column = i % W, row = i / W % H, f = i / W / H % K, n = i / W / H / K;
    float sum = 0;
    for (int c = 0; c < C; ++c)
        for (int t = 0; t < 9; ++t) {
            int h = row + t / 3 - 1, v = column + t % 3 - 1;
            bool inside = h >= 0 && h < H && v >= 0 && v < W;
            sum += (inside ? x[((n * C + c) * H + h) * W + v] : 0) * w[(f * C + c) * 9 + t];
        }
    y[i] = sum;
}

__global__ void normalise(float* y, const float* mean, const float* var, const float* gamma,
                          const float* beta, int N, int P, int Q, int K) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= 4 * N * K * P * Q) return;
    int f = i / (4 * P * Q) % K;
    y[i] = (y[i] - mean[f]) * rsqrtf(var[f] + 1e-5f) * gamma[f] + beta[f];
}

__global__ void activate(float* y, int N, int P, int Q, int K) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < 4 * N * K * P * Q) y[i] = y[i] < 0 ? 0 : y[i];
}

__global__ void pool(const float* y, float* out, int N, int P, int Q, int K) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= N * K * P * Q) return;
    const float* from = y + i / Q * 4 * Q + i % Q * 2;
    float v[4] = {from[0], from[1], from[2 * Q], from[2 * Q + 1]}, most = v[0];
    for (int k = 1; k < 4; ++k) most = v[k] > most || v[k] != v[k] ? v[k] : most;
    out[i] = most;
}
