// rung:   02 chunks
// idea:   the kernel of weft.optim.AdamW. A block has a chunk of one tensor. A thread loads 16
//         bytes of each array, twice before the first use, and numbers of the tensor are computed
//         once per chunk
// expect: load sectors per request >= 12
// launch: adamw<<<(cdiv(n, 4096), t), 128>>>

#include "../../optim/cuda/rules.cuh"
#include "../../optim/cuda/update.cuh"

__global__ void __launch_bounds__(128)
    adamw(const float* p, const float* g, const float* m, const float* v, float* p2, float* m2,
          float* v2, size_t n) {
    Adam<true, false> rule(1e-3f, 10, log(0.9), log(0.999), 0.999f, 0.1f, 0.001f, 1e-8f, 1e-2f);
    size_t begin = blockIdx.x * size_t(4096), at = blockIdx.y * n + begin;
    using All = Streams<float, float, 2, false>;
    All from{const_cast<float*>(p) + at,
             g + at,
             {const_cast<float*>(m) + at, const_cast<float*>(v) + at}};
    All to{p2 + at, g + at, {m2 + at, v2 + at}};
    update<4, 2, 128>(from, to, n - begin < 4096 ? n - begin : 4096, rule, 1.0f);
}
