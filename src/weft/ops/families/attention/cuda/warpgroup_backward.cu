// The kernels of attention's gradients for f16 and bf16 on Hopper.
#include "warpgroup_backward.cuh"

template <class T, int HEAD, int BS, int STAGES, int MASK, bool KEYS>
__global__ void __launch_bounds__(384, 1)
    gradients(const T* q, const T* k, const T* v, const void* mask, const T* dout, const float* lse,
              const float* deltas, T* to1, T* to2, float* partial, const int* starts_q,
              const int* starts_k, int* counters, const Problem p,
              const Gradients g EXPRESSION_PARAMETERS) {
    TAKE_EXPRESSION(mask);
    gradient_warpgroups<T, HEAD, BS, STAGES, MASK, KEYS>(
        q, k, v, mask, dout, lse, deltas, to1, to2, partial, starts_q, starts_k, counters, p, g);
}
