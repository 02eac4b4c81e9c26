// rung:   01 tiled
// idea:   tiles of 16 x 16 in shared memory: an element of queries, keys, weights or values that is
//         read from memory is used 16 times; a warp per row of the softmax reads adjacent scores
// precision: bf16
// scratch: scores:f32[b*h*m*s]
// bench:  b=4, h=16, m=1024, s=1024, d=128
// launch: multiply_keys<<<(cdiv(s, 16), cdiv(m, 16), b * h), (16, 16)>>>
// launch: softmax<<<b * h * m, 32>>>
// launch: multiply_values<<<(cdiv(d, 16), cdiv(m, 16), b * h), (16, 16)>>>
// expect: bytes read per result <= 250

#include <cuda_bf16.h>

__global__ void multiply_keys(const __nv_bfloat16* q, const __nv_bfloat16* k, float* scores, int m,
                              int s, int d) {
    __shared__ float qs[16][17], ks[16][17];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, start = blockIdx.x * 16;
    if (start > blockIdx.y * 16 + 15 + s - m) return;  // the whole tile is hidden
    size_t head = blockIdx.z;
    float sum = 0;
    for (int i = 0; i < d; i += 16) {
        qs[y][x] = row < m && i + x < d ? float(q[(head * m + row) * d + i + x]) : 0;
        ks[y][x] = start + y < s && i + x < d ? float(k[(head * s + start + y) * d + i + x]) : 0;
        __syncthreads();
        for (int j = 0; j < 16; ++j) sum += qs[y][j] * ks[x][j];
        __syncthreads();
    }
    if (row < m && start + x <= row + s - m)
        scores[(head * m + row) * s + start + x] = sum * rsqrtf(d);
}

__global__ void softmax(float* scores, int m, int s) {
    int keys = blockIdx.x % m + s - m + 1;
    float *x = scores + size_t(blockIdx.x) * s, most = __int_as_float(0xff800000), sum = 0;
    for (int i = threadIdx.x; i < keys; i += 32) most = fmaxf(most, x[i]);
    for (int i = 16; i; i /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, i));
    if (isinf(most) && most < 0) most = 0;  // all are -inf: their weights are 0
    for (int i = threadIdx.x; i < keys; i += 32) sum += expf(x[i] - most);
    for (int i = 16; i; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
    if (sum == 0) sum = 1;
    for (int i = threadIdx.x; i < keys; i += 32) x[i] = expf(x[i] - most) / sum;
}

__global__ void multiply_values(const float* scores, const __nv_bfloat16* v, __nv_bfloat16* o,
                                int m, int s, int d) {
    __shared__ float ws[16][17], vs[16][17];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    size_t head = blockIdx.z;
    float sum = 0;
    for (int i = 0; i < s && i <= int(blockIdx.y) * 16 + 15 + s - m; i += 16) {
        ws[y][x] = row < m && i + x <= row + s - m ? scores[(head * m + row) * s + i + x] : 0;
        vs[y][x] = i + y < s && column < d ? float(v[(head * s + i + y) * d + column]) : 0;
        __syncthreads();
        for (int j = 0; j < 16; ++j) sum += ws[y][j] * vs[j][x];
        __syncthreads();
    }
    if (row < m && column < d) o[(head * m + row) * d + column] = sum;
}
