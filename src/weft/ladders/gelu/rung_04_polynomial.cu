// rung:   04 polynomial
// idea:   the functions of weft.ops.gelu: polynomials for the normal distribution near 0 and for
//         its tail, with a relative error of 5e-8 and without branches. One exponential serves the
//         tail and the density
// expect: load sectors per request = 16
// launch: forward<<<cdiv(n, 1024), 256>>>
// launch: backward<<<cdiv(n, 1024), 256>>>

#include "../../ops/families/activation/cuda/activations.cuh"

__global__ void forward(const float* x, float* y, size_t n) {
    size_t i = (size_t(blockIdx.x) * 256 + threadIdx.x) * 4;
    if (i + 4 <= n) {
        float4 v = *reinterpret_cast<const float4*>(x + i);
        *reinterpret_cast<float4*>(y + i) = {gelu<float>(v.x), gelu<float>(v.y), gelu<float>(v.z),
                                             gelu<float>(v.w)};
    } else {
        for (; i < n; ++i) y[i] = gelu<float>(x[i]);
    }
}

__global__ void backward(const float* x, const float* dy, float* dx, size_t n) {
    size_t i = (size_t(blockIdx.x) * 256 + threadIdx.x) * 4;
    if (i + 4 <= n) {
        float4 v = *reinterpret_cast<const float4*>(x + i);
        float4 g = *reinterpret_cast<const float4*>(dy + i);
        *reinterpret_cast<float4*>(dx + i) = {
            g.x * gelu_slope<float>(v.x), g.y * gelu_slope<float>(v.y),
            g.z * gelu_slope<float>(v.z), g.w * gelu_slope<float>(v.w)};
    } else {
        for (; i < n; ++i) dx[i] = dy[i] * gelu_slope<float>(x[i]);
    }
}
