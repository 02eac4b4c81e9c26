// The kernels of attention's gradients for f16 and bf16.
#include "backward.cuh"

template <class T, int HEAD, int BM, int BN, int WARPS, int MASK, bool WIDE>
__global__ void __launch_bounds__(WARPS * 32)
    queries(const T* q, const T* k, const T* v, const void* mask, const T* o, const T* dout, const float* lse,
            const float* dlse, float* deltas, T* dq, const int* starts_q, const int* starts_k, const Problem p,
            const Gradients g) {
    query_gradient<T, HEAD, BM, BN, WARPS, MASK, WIDE>(q, k, v, mask, o, dout, lse, dlse, deltas, dq, starts_q, starts_k, p,
                                                       g);
}

template <class T, int HEAD, int BM, int BN, int WARPS, int MASK, bool WIDE, bool KEYS, bool VALUES>
__global__ void __launch_bounds__(WARPS * 32)
    keys(const T* q, const T* k, const T* v, const void* mask, const T* dout, const float* lse, const float* deltas, T* dk,
         T* dv, const int* starts_q, const int* starts_k, const Problem p, const Gradients g) {
    key_gradients<T, HEAD, BM, BN, WARPS, MASK, WIDE, KEYS, VALUES>(q, k, v, mask, dout, lse, deltas, dk, dv, starts_q,
                                                                    starts_k, p, g);
}
