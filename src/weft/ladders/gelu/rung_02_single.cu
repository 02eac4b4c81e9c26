// rung:   02 single
// idea:   constants with an f and the functions of single precision: an SM has half as many units
//         for double precision as for single precision, and they need several times the
//         instructions
// launch: forward<<<cdiv(n, 256), 256>>>
// launch: backward<<<cdiv(n, 256), 256>>>

__global__ void forward(const float* x, float* y, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i < n) y[i] = x[i] * normcdff(x[i]);
}

__global__ void backward(const float* x, const float* dy, float* dx, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    dx[i] = dy[i] * (normcdff(v) + v * 0.3989423f * expf(-0.5f * v * v));
}
