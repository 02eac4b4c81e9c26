// rung:   02 welford
// idea:   mean and variance in one pass (Welford), joined between threads without a difference of
//         large sums (Chan, Golub and LeVeque). Two passes over memory instead of three
// precision: bf16
// expect: bytes read per result <= 8.1
// launch: layer_norm<<<rows, 256>>>

#include "../../ops/families/norm/cuda/moments.cuh"

__global__ void layer_norm(const __nv_bfloat16* x, const __nv_bfloat16* w, const __nv_bfloat16* b,
                           __nv_bfloat16* y, int n) {
    x += size_t(blockIdx.x) * n, y += size_t(blockIdx.x) * n;
    Moments all;
    for (int i = threadIdx.x; i < n; i += 256) all.add(1, float(x[i]), 0);
    all = block_moments<256>(all);
    float rstd = rsqrtf(all.squares / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += 256)
        y[i] = __float2bfloat16((float(x[i]) - all.mean) * rstd * float(w[i]) + float(b[i]));
}
