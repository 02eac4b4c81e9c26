// rung:   01 one launch
// idea:   the backward pass is one kernel: what is computed again need not be stored and read, and
//         three accesses per element are left of eight
// expect: bytes read per result = 12
// launch: forward<<<cdiv(n, 256), 256>>>
// launch: backward<<<cdiv(n, 256), 256>>>

__global__ void forward(const float* x, float* y, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i < n) y[i] = x[i] * 0.5 * (1.0 + erf(x[i] * 0.7071067811865476));
}

__global__ void backward(const float* x, const float* dy, float* dx, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i >= n) return;
    double v = x[i];
    dx[i] = dy[i] * (0.5 * (1.0 + erf(v * 0.7071067811865476)) +
                     v * 0.3989422804014327 * exp(-0.5 * v * v));
}
