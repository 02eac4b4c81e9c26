// rung:   01 block
// idea:   a block per row, in two kernels as a loss and its backward pass: adjacent threads read
//         adjacent elements. The logits are still read three times
// expect: bytes read per result >= 6
// expect: load sectors per request <= 2
// scratch: most:f32[rows] sum:f32[rows]
// launch: forward<<<rows, 256>>>
// launch: backward<<<rows, 256>>>

#include "block.cuh"

__global__ void __launch_bounds__(256)
    forward(const T* x, const long long* t, T* loss, float* most, float* sum, int n) {
    x += size_t(blockIdx.x) * n;
    float top = lowest(), total = 0;
    for (int i = threadIdx.x; i < n; i += 256) top = larger(top, __bfloat162float(x[i]));
    top = across(top, larger);
    for (int i = threadIdx.x; i < n; i += 256) total += __expf(__bfloat162float(x[i]) - top);
    total = across(total, plus);
    if (threadIdx.x == 0) {
        most[blockIdx.x] = top, sum[blockIdx.x] = total;
        loss[blockIdx.x] = __float2bfloat16(logf(total) + top - __bfloat162float(x[t[blockIdx.x]]));
    }
}

__global__ void __launch_bounds__(256)
    backward(const T* x, const long long* t, T* d, const float* most, const float* sum, int n) {
    x += size_t(blockIdx.x) * n, d += size_t(blockIdx.x) * n;
    float top = most[blockIdx.x], total = sum[blockIdx.x];
    int label = t[blockIdx.x];
    for (int i = threadIdx.x; i < n; i += 256)
        d[i] = gradient(__bfloat162float(x[i]) - top, total, i == label);
}
