// The kernels of micrograd. Each computes one element per thread; `+=` adds to a gradient.

__device__ int thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// ---- elementwise: b has nb elements, which repeat along a ----------------------------------
extern "C" __global__ void add(const float* a, const float* b, float* y, int n, int nb) {
    int i = thread();
    if (i < n) y[i] = a[i] + b[i % nb];
}

extern "C" __global__ void mul(const float* a, const float* b, float* y, int n, int nb) {
    int i = thread();
    if (i < n) y[i] = a[i] * b[i % nb];
}

// da += dy * (b, or 1 if b is null)
extern "C" __global__ void grad_a(float* da, const float* dy, const float* b, int n, int nb) {
    int i = thread();
    if (i < n) da[i] += dy[i] * (b ? b[i % nb] : 1.0f);
}

// db += the sum of dy * (a, or 1 if a is null) over the repetitions of b
extern "C" __global__ void grad_b(float* db, const float* dy, const float* a, int n, int nb) {
    int j = thread();
    if (j >= nb) return;
    float sum = 0.0f;
    for (int i = j; i < n; i += nb) sum += dy[i] * (a ? a[i] : 1.0f);
    db[j] += sum;
}

extern "C" __global__ void tanh_forward(const float* x, float* y, int n) {
    int i = thread();
    if (i < n) y[i] = tanhf(x[i]);
}

extern "C" __global__ void tanh_backward(float* dx, const float* dy, const float* y, int n) {
    int i = thread();
    if (i < n) dx[i] += dy[i] * (1.0f - y[i] * y[i]);
}

extern "C" __global__ void relu_forward(const float* x, float* y, int n) {
    int i = thread();
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

extern "C" __global__ void relu_backward(float* dx, const float* dy, const float* y, int n) {
    int i = thread();
    if (i < n) dx[i] += y[i] > 0.0f ? dy[i] : 0.0f;
}

// ---- c[m, n] += a b; element (i, k) of a is at i * ai + k * ak, and so for b: any transpose --
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int K,
                                  int ai, int ak, int bk, int bj) {
    int t = thread();
    if (t >= m * n) return;
    int i = t / n, j = t % n;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += a[i * ai + k * ak] * b[k * bk + j * bj];
    c[t] += sum;
}

// ---- losses: each also writes its gradient for an upstream gradient of 1 ---------------------
extern "C" __global__ void mse(const float* x, const float* want, float* dx, float* loss, int n) {
    int i = thread();
    if (i >= n) return;
    float d = x[i] - want[i];
    dx[i] = 2.0f * d / n;
    atomicAdd(loss, d * d / n);
}

// One thread per row: softmax of the row, minus 1 at the label.
extern "C" __global__ void cross_entropy(const float* x, const int* labels, float* dx, float* loss,
                                         int rows, int n) {
    int r = thread();
    if (r >= rows) return;
    const float* row = x + r * n;
    float top = row[0], sum = 0.0f;
    for (int j = 1; j < n; ++j) top = fmaxf(top, row[j]);
    for (int j = 0; j < n; ++j) sum += expf(row[j] - top);
    for (int j = 0; j < n; ++j)
        dx[r * n + j] = (expf(row[j] - top) / sum - (j == labels[r])) / rows;
    atomicAdd(loss, (logf(sum) + top - row[labels[r]]) / rows);
}

// ---- update ----------------------------------------------------------------------------------
extern "C" __global__ void sgd(float* x, float* dx, float rate, int n) {
    int i = thread();
    if (i >= n) return;
    x[i] -= rate * dx[i];
    dx[i] = 0.0f;
}
