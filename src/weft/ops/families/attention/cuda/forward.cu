// The kernel of attention for f16 and bf16.
#include "forward.cuh"

template <class T, int HEAD, int BM, int BN, int WARPS, int STAGES, int MASK, int SPLIT, bool DROP,
          int ACROSS>
__global__ void __launch_bounds__(WARPS * 32)
    attend(const T* q, const T* k, const T* v, const void* mask, T* o, float* lse,
           const int* starts_q, const int* starts_k, float* partial, int* counters, const Problem p,
           const long long* state, long long seed, long long offset EXPRESSION_PARAMETERS) {
    TAKE_EXPRESSION(mask);
    attend_tile<T, HEAD, BM, BN, WARPS, STAGES, MASK, SPLIT, DROP, ACROSS>(
        q, k, v, mask, o, lse, starts_q, starts_k, partial, counters, p, {state, seed, offset});
}
