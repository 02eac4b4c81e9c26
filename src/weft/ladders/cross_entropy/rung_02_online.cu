// rung:   02 online
// idea:   the maximum and the sum in one pass: at a larger element, the sum so far is scaled down
//         (online softmax, Milakov and Gimelshein). The logits are read twice
// expect: bytes read per result <= 5
// scratch: most:f32[rows] sum:f32[rows]
// launch: forward<<<rows, 256>>>
// launch: backward<<<rows, 256>>>

#include "block.cuh"

__global__ void __launch_bounds__(256)
    forward(const T* x, const long long* t, T* loss, float* most, float* sum, int n) {
    x += size_t(blockIdx.x) * n;
    Running own;
    for (int i = threadIdx.x; i < n; i += 256) own.take(__bfloat162float(x[i]));
    float top = across(own.most, larger);
    float total = across(own.most == lowest() ? 0 : own.sum * __expf(own.most - top), plus);
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
