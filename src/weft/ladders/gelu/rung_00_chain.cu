// rung:   00 chain
// idea:   one kernel per operation, as a chain of elementwise ops: the backward pass stores the
//         integral and the density of the normal distribution and reads them again. Constants
//         without an f make the arithmetic double precision
// scratch: below:f32[n]
// scratch: density:f32[n]
// launch: forward<<<cdiv(n, 256), 256>>>
// launch: integral<<<cdiv(n, 256), 256>>>
// launch: densities<<<cdiv(n, 256), 256>>>
// launch: backward<<<cdiv(n, 256), 256>>>

__global__ void forward(const float* x, float* y, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i < n) y[i] = x[i] * 0.5 * (1.0 + erf(x[i] * 0.7071067811865476));
}

__global__ void integral(const float* x, float* below, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i < n) below[i] = 0.5 * (1.0 + erf(x[i] * 0.7071067811865476));
}

__global__ void densities(const float* x, float* density, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i < n) density[i] = 0.3989422804014327 * exp(-0.5 * x[i] * x[i]);
}

__global__ void backward(const float* x, const float* dy, const float* below, const float* density,
                         float* dx, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i < n) dx[i] = dy[i] * (below[i] + x[i] * density[i]);
}
