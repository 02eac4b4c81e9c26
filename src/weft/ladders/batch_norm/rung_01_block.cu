// rung:   01 block
// idea:   one block per channel: adjacent threads read adjacent elements. Mean and variance come
//         from one pass (Welford), joined between threads (Chan, Golub and LeVeque); a second pass
//         writes
// expect: load sectors per request <= 4.5
// launch: batch_norm<<<C, 256>>>

#include "../../ops/families/norm/cuda/moments.cuh"

__global__ void __launch_bounds__(256)
    batch_norm(const float* x, const float* w, const float* b, float* y, int N, int C, int S) {
    int c = blockIdx.x, size = N * S;
    auto at = [&](int i) { return (size_t(i / S) * C + c) * S + i % S; };
    Moments all;
    for (int i = threadIdx.x; i < size; i += 256) all.add(1, x[at(i)], 0);
    all = block_moments<256>(all);
    float scale = rsqrtf(all.squares / size + 1e-5f);
    for (int i = threadIdx.x; i < size; i += 256)
        y[at(i)] = (x[at(i)] - all.mean) * scale * w[c] + b[c];
}
