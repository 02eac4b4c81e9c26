// rung:   00 kernel per step
// idea:   a kernel for each step of the formula, as a framework without fusion runs it: the sum,
//         the mean of its squares, the product. What a kernel writes, the next one reads again
// precision: bf16
// expect: bytes read per result >= 9
// scratch: scale:f32[rows]
// launch: sums<<<cdiv(rows * n, 256), 256>>>
// launch: means<<<rows, 256>>>
// launch: products<<<cdiv(rows * n, 256), 256>>>

#include <cuda_bf16.h>

using T = __nv_bfloat16;

__global__ void sums(const T* x, const T* r, T* s, int rows, int n) {
    long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i < (long long)rows * n) s[i] = __float2bfloat16(float(x[i]) + float(r[i]));
}

__global__ void means(const T* s, float* scale, int n) {
    __shared__ float part[8];
    s += size_t(blockIdx.x) * n;
    float squares = 0;
    for (int i = threadIdx.x; i < n; i += 256) squares += float(s[i]) * float(s[i]);
    for (int d = 16; d > 0; d /= 2) squares += __shfl_xor_sync(~0u, squares, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = squares;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 1; i < 8; ++i) squares += part[i];
    scale[blockIdx.x] = rsqrtf(squares / n + 1e-6f);
}

__global__ void products(const T* s, const T* w, const float* scale, T* y, int rows, int n) {
    long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i < (long long)rows * n)
        y[i] = __float2bfloat16(float(s[i]) * scale[i / n] * float(w[i % n]));
}
