// y = max_pool(relu(x * scale + shift)), scale and shift for each channel.
// One thread for each result.
__global__ void block(const float* x, const float* scale, const float* shift, float* y, int n,
                      int c, int h, int w) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n * c * h * w) return;
    int column = i % w, row = i / w % h, plane = i / (w * h), channel = plane % c;
    const float* p = x + (plane * 2 * h + 2 * row) * 2 * w + 2 * column;
    float most = fmaxf(fmaxf(p[0], p[1]), fmaxf(p[2 * w], p[2 * w + 1]));
    y[i] = fmaxf(most * scale[channel] + shift[channel], 0.0f);
}
