// A training step in four kernels. Every sum has a fixed order: a step gives the same bits again.

// One thread for each hidden unit of each image; neighbours read neighbouring weights.
__global__ void hidden(const float* x, const float* p, float* a, int n, int k, int h) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n * h) return;
    int unit = i % h;
    const float* row = x + i / h * k;
    float sum = p[k * h + unit];
    for (int j = 0; j < k; j++) sum += row[j] * p[j * h + unit];
    a[i] = tanhf(sum);
}

// One warp for each image, one lane for each class.
__global__ void output(const float* a, const int* t, const float* p, float* losses, float* d, int n,
                       int k, int h) {
    int image = blockIdx.x * 4 + threadIdx.x / 32, c = threadIdx.x % 32;
    if (image >= n) return;
    const float *w2 = p + k * h + h, *b2 = w2 + h * 10;
    bool real = c < 10;
    float z = real ? b2[c] : -INFINITY;
    if (real)
        for (int j = 0; j < h; j++) z += a[image * h + j] * w2[j * 10 + c];
    float most = z;
    for (int s = 16; s > 0; s /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, s));
    float part = expf(z - most), sum = part;
    for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(~0u, sum, s);
    int label = t[image];
    if (real) d[image * 10 + c] = (part / sum - (c == label)) / n;
    if (c == label) losses[image] = most + logf(sum) - z;
}

__global__ void back(const float* a, const float* d, const float* p, float* e, int n, int k,
                     int h) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n * h) return;
    const float *slopes = d + i / h * 10, *w2 = p + k * h + h + i % h * 10;
    float sum = 0;
    for (int c = 0; c < 10; c++) sum += slopes[c] * w2[c];
    e[i] = sum * (1 - a[i] * a[i]);
}

// The gradient of a weight is a sum over the images of its input times the slope of its result.
// A bias has the input 1.
__global__ void update(const float* x, const float* a, const float* d, const float* e,
                       const float* p, float* g, float* q, int n, int k, int h) {
    int i = blockIdx.x * 128 + threadIdx.x, first = k * h + h;
    if (i >= first + h * 10 + 10) return;
    bool second = i >= first;
    int width = second ? 10 : h, rows = second ? h : k, place = second ? i - first : i;
    int row = place / width, column = place % width;
    const float *input = second ? a : x, *slope = second ? d : e;
    float sum = 0;
    for (int m = 0; m < n; m++)
        sum += (row < rows ? input[m * rows + row] : 1.0f) * slope[m * width + column];
    g[i] = sum;
    q[i] = p[i] - 0.5f * sum;
}
