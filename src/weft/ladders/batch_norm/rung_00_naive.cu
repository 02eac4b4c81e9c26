// rung:   00 naive
// idea:   one thread per channel, three passes: the mean, the variance, the result. A GPU has far
//         more threads than a network has channels
// expect: load sectors per request >= 4
// bench:  N=64, C=256, S=196
// launch: batch_norm<<<cdiv(C, 64), 64>>>

__global__ void batch_norm(const float* x, const float* w, const float* b, float* y, int N, int C,
                           int S) {
    int c = blockIdx.x * 64 + threadIdx.x;
    if (c >= C) return;
    float size = float(N) * S, middle = 0, squares = 0;
    auto at = [&](int n, int i) { return (size_t(n) * C + c) * S + i; };
    for (int n = 0; n < N; ++n)
        for (int i = 0; i < S; ++i) middle += x[at(n, i)];
    middle /= size;
    for (int n = 0; n < N; ++n)
        for (int i = 0; i < S; ++i) squares += (x[at(n, i)] - middle) * (x[at(n, i)] - middle);
    float scale = rsqrtf(squares / size + 1e-5f);
    for (int n = 0; n < N; ++n)
        for (int i = 0; i < S; ++i) y[at(n, i)] = (x[at(n, i)] - middle) * scale * w[c] + b[c];
}
