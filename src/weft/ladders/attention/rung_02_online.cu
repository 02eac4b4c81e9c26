// rung:   02 online softmax
// idea:   one kernel: a warp has one query and visits its keys once. It keeps the maximum so far
//         and the sum relative to it, and scales the result when the maximum grows (Milakov and
//         Gimelshein 2018), so no score is written to memory
// precision: bf16
// bench:  b=4, h=16, m=1024, s=1024, d=128
// launch: attention<<<cdiv(b * h * m, 4), 128>>>
// expect: store sectors per request <= 2

#include <cuda_bf16.h>

__global__ void attention(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                          __nv_bfloat16* o, int b, int h, int m, int s, int d) {
    size_t row = blockIdx.x * 4 + threadIdx.x / 32, head = row / m;
    if (row >= size_t(b) * h * m) return;
    int lane = threadIdx.x % 32, keys = row % m + s - m + 1;
    float x[4], result[4] = {};  // a lane has up to 4 of 128 elements
    float most = __int_as_float(0xff800000), sum = 0;
    for (int i = 0; i < 4; ++i) x[i] = i * 32 + lane < d ? float(q[row * d + i * 32 + lane]) : 0;
    for (int key = 0; key < keys; ++key) {
        const __nv_bfloat16* at = k + (head * s + key) * d + lane;
        const __nv_bfloat16* value = v + (head * s + key) * d + lane;
        float score = 0;
        for (int i = 0; i < 4; ++i)
            if (i * 32 + lane < d) score += x[i] * float(at[i * 32]);
        for (int i = 16; i; i /= 2) score += __shfl_xor_sync(~0u, score, i);
        score *= rsqrtf(d);
        float now = fmaxf(most, score);
        float base = isinf(now) && now < 0 ? 0 : now;  // while all are -inf, their weights are 0
        float factor = expf(most - base), weight = expf(score - base);
        most = now, sum = sum * factor + weight;
        for (int i = 0; i < 4; ++i)
            if (i * 32 + lane < d) result[i] = result[i] * factor + weight * float(value[i * 32]);
    }
    if (sum == 0) sum = 1;
    for (int i = 0; i < 4; ++i)
        if (i * 32 + lane < d) o[row * d + i * 32 + lane] = result[i] / sum;
}
