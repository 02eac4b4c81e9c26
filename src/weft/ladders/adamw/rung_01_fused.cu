// rung:   01 fused
// idea:   one kernel: what one operation computes is in registers for the next. One launch for each
//         tensor would do; here all of them are rows of one array
// expect: bytes read per result = 16
// launch: adamw<<<cdiv(t * n, 256), 256>>>

#include "../../optim/cuda/rules.cuh"

__global__ void adamw(const float* p, const float* g, const float* m, const float* v, float* p2,
                      float* m2, float* v2, size_t t, size_t n) {
    Adam<true, false> rule(1e-3f, 10, log(0.9), log(0.999), 0.999f, 0.1f, 0.001f, 1e-8f, 1e-2f);
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i >= t * n) return;
    float value = p[i], state[2] = {m[i], v[i]};
    rule(value, g[i], state);
    p2[i] = value, m2[i] = state[0], v2[i] = state[1];
}
