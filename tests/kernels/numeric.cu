// Elementary functions and narrow formats; training steps.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#define ELEMENTWISE(name, type, expression)                                \
    __global__ void name(const type* in, type* out, int n) {               \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                     \
        if (i >= n) return;                                                \
        type x = in[i];                                                    \
        out[i] = expression;                                               \
    }

ELEMENTWISE(f32_exp, float, expf(x))
ELEMENTWISE(f32_log, float, logf(x))
ELEMENTWISE(f32_log1p, float, log1pf(x))
ELEMENTWISE(f32_sin, float, sinf(x))
ELEMENTWISE(f32_tan, float, tanf(x))
ELEMENTWISE(f32_tanh, float, tanhf(x))
ELEMENTWISE(f32_erf, float, erff(x))
ELEMENTWISE(f32_cbrt, float, cbrtf(x))
ELEMENTWISE(f32_power, float, powf(x, 2.5f))
ELEMENTWISE(f32_silu, float, x / (1.f + expf(-x)))
ELEMENTWISE(f32_gelu, float, 0.5f * x * (1.f + erff(x * 0.70710678f)))
ELEMENTWISE(f32_gelu_tanh, float,
            0.5f * x * (1.f + tanhf(0.79788456f * (x + 0.044715f * x * x * x))))
ELEMENTWISE(f64_exp, double, exp(x))
ELEMENTWISE(f64_expm1, double, expm1(x))
ELEMENTWISE(f64_log, double, log(x))
ELEMENTWISE(f64_power, double, pow(x, 3.7))
ELEMENTWISE(f64_sin, double, sin(x))
ELEMENTWISE(f64_cos, double, cos(x))
ELEMENTWISE(f64_atan, double, atan(x))
ELEMENTWISE(f64_tanh, double, tanh(x))
ELEMENTWISE(f64_sqrt, double, sqrt(x))
ELEMENTWISE(f64_erf, double, erf(x))
ELEMENTWISE(f64_divide, double, 1.0 / x)
ELEMENTWISE(copy, float, x)
ELEMENTWISE(negate, float, -x)
ELEMENTWISE(add_zero, float, x + 0.f)

// y = a x + y on pairs; an odd last element is done alone.
__global__ void axpy_half2(half a, const half* x, half* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (2 * i + 1 < n)
        ((half2*)y)[i] = __hfma2(__half2half2(a), ((const half2*)x)[i], ((half2*)y)[i]);
    else if (2 * i < n)
        y[2 * i] = __hfma(a, x[2 * i], y[2 * i]);
}

__global__ void axpy_bf16(float a, const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2bfloat16(a * __bfloat162float(x[i]) + __bfloat162float(y[i]));
}

__global__ void bf16_operators(const __nv_bfloat16* x, const __nv_bfloat16* y, __nv_bfloat16* out,
                               int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] > y[i] ? x[i] * y[i] : x[i] - y[i];
}

__global__ void to_fp8(const float* x, unsigned char* e4m3, unsigned char* e5m2, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    e4m3[i] = __nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E4M3);
    e5m2[i] = __nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E5M2);
}

__global__ void from_fp8(const unsigned char* bits, float* e4m3, float* e5m2, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __nv_fp8_e4m3 a;
    __nv_fp8_e5m2 b;
    a.__x = bits[i], b.__x = bits[i];
    e4m3[i] = float(a), e5m2[i] = float(b);
}

struct AdamOptions {
    float lr, beta1, beta2, eps, decay;
    int step;
};

__global__ void adam(float* p, const float* g, float* m, float* v, int n, AdamOptions o) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = o.beta1 * m[i] + (1.f - o.beta1) * g[i];
    v[i] = o.beta2 * v[i] + (1.f - o.beta2) * g[i] * g[i];
    float mean = m[i] / (1.f - powf(o.beta1, o.step));
    float var = v[i] / (1.f - powf(o.beta2, o.step));
    p[i] -= o.lr * (mean / (sqrtf(var) + o.eps) + o.decay * p[i]);
}

__global__ void embedding(const float* table, const long long* ids, float* out, int width) {
    const float* row = table + ids[blockIdx.x] * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) out[blockIdx.x * width + i] = row[i];
}

__global__ void embedding_gradient(float* table, const long long* ids, const float* g, int width) {
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        atomicAdd(&table[ids[blockIdx.x] * width + i], g[blockIdx.x * width + i]);
}
