// The kernel of attention for f16 and bf16 with few queries, whose warps have rings of their own:
// for Hopper.
#include "rings.cuh"

template <class T, int HEAD, int WARPS, int STAGES, int KEYS, int MASK, int SPLIT>
__global__ void __launch_bounds__(WARPS * 32)
    rings(const T* q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
          const void* mask, T* o, float* lse, float* partial, int* counters,
          const __grid_constant__ Problem p) {
    attend_by_rings<T, HEAD, WARPS, STAGES, KEYS, MASK, SPLIT>(q, k, v, mask, o, lse, partial,
                                                               counters, p);
}
