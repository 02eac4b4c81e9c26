// rung:   01 one kernel
// idea:   one block per row computes all steps. The block reads its sums again for the result, from
//         the cache that has just taken them
// precision: bf16
// expect: bytes read per result <= 9
// launch: rms_norm<<<rows, 256>>>

#include <cuda_bf16.h>
#include <weft/block.cuh>

using T = __nv_bfloat16;

__global__ void __launch_bounds__(256)
    rms_norm(const T* x, const T* r, const T* w, T* y, T* s, int n) {
    size_t row = size_t(blockIdx.x) * n;
    float squares = 0;
    for (int i = threadIdx.x; i < n; i += 256) {
        T sum = __float2bfloat16(float(x[row + i]) + float(r[row + i]));
        s[row + i] = sum;
        squares += float(sum) * float(sum);
    }
    float scale = rsqrtf(weft::block_sum<256>(squares) / n + 1e-6f);
    for (int i = threadIdx.x; i < n; i += 256)
        y[row + i] = __float2bfloat16(float(s[row + i]) * scale * float(w[i]));
}
