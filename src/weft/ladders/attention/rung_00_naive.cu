// rung:   00 naive
// idea:   three kernels, one thread per result: scores, softmax of each row, weights times values.
//         The m x s scores of every head are written to memory and read again
// precision: bf16
// scratch: scores:f32[b*h*m*s]
// bench:  b=4, h=16, m=1024, s=1024, d=128
// launch: multiply_keys<<<(cdiv(s, 128), m, b * h), 128>>>
// launch: softmax<<<cdiv(b * h * m, 128), 128>>>
// launch: multiply_values<<<(cdiv(d, 128), m, b * h), 128>>>
// expect: bytes read per result >= 400

#include <cuda_bf16.h>

__global__ void multiply_keys(const __nv_bfloat16* q, const __nv_bfloat16* k, float* scores, int m,
                              int s, int d) {
    int key = blockIdx.x * 128 + threadIdx.x, row = blockIdx.y;
    if (key > row + s - m) return;  // a query sees the keys up to its own
    size_t head = blockIdx.z;
    q += (head * m + row) * d, k += (head * s + key) * d;
    float sum = 0;
    for (int i = 0; i < d; ++i) sum += float(q[i]) * float(k[i]);
    scores[(head * m + row) * s + key] = sum * rsqrtf(d);
}

__global__ void softmax(float* scores, int b, int h, int m, int s) {
    size_t row = blockIdx.x * 128 + threadIdx.x;
    if (row >= size_t(b) * h * m) return;
    int keys = row % m + s - m + 1;
    float *x = scores + row * s, most = x[0], sum = 0;
    for (int i = 1; i < keys; ++i) most = fmaxf(most, x[i]);
    if (isinf(most) && most < 0) most = 0;  // all are -inf: their weights are 0
    for (int i = 0; i < keys; ++i) sum += expf(x[i] - most);
    if (sum == 0) sum = 1;
    for (int i = 0; i < keys; ++i) x[i] = expf(x[i] - most) / sum;
}

__global__ void multiply_values(const float* scores, const __nv_bfloat16* v, __nv_bfloat16* o,
                                int m, int s, int d) {
    int c = blockIdx.x * 128 + threadIdx.x, row = blockIdx.y;
    if (c >= d) return;
    size_t head = blockIdx.z;
    float sum = 0;
    for (int key = 0; key <= row + s - m; ++key)
        sum += scores[(head * m + row) * s + key] * float(v[(head * s + key) * d + c]);
    o[(head * m + row) * d + c] = sum;
}
