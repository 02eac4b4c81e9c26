// The kernels of attention's gradients for f16 and bf16.
#include "scores.cuh"

template <class T, int HEAD, int BM, int BN, int WARPS, int MASK, bool DROP>
__global__ void __launch_bounds__(WARPS * 32)
    queries(const T* q, const T* k, const T* v, const void* mask, const T* o, const T* dout,
            const float* lse, const float* dlse, float* deltas, T* dq, float* partial,
            const int* starts_q, const int* starts_k, const Problem p, const Gradients g,
            const long long* state, long long seed, long long offset EXPRESSION_PARAMETERS) {
    TAKE_EXPRESSION(mask);
    query_gradient<T, HEAD, BM, BN, WARPS, MASK, DROP>(q, k, v, mask, o, dout, lse, dlse, deltas,
                                                       dq, partial, starts_q, starts_k, p, g,
                                                       {state, seed, offset});
}

template <class T, int HEAD, int BM, int BN, int WARPS, int MASK, bool PAIRED, bool STORE,
          bool DROP>
__global__ void __launch_bounds__(WARPS * 32)
    keys(const T* q, const T* k, const T* v, const void* mask, const T* dout, const float* lse,
         const float* deltas, T* dk, T* dv, T* stored, float* partial, const int* starts_q,
         const int* starts_k, const Problem p, const Gradients g, const long long* state,
         long long seed, long long offset EXPRESSION_PARAMETERS) {
    TAKE_EXPRESSION(mask);
    KeyGradients<T, HEAD, BM, BN, WARPS, MASK, PAIRED, STORE, DROP>(
        q, k, v, mask, dout, lse, deltas, dk, dv, stored, partial, starts_q, starts_k, p, g,
        {state, seed, offset})
        .run();
}

template <class T, int HEAD>
__global__ void __launch_bounds__(256)
    deltas(const T* o, const T* dout, const float* dlse, float* to, const int* starts_q,
           const int* starts_k, const Problem p, const Gradients g) {
    row_deltas<T, HEAD>(o, dout, dlse, to, starts_q, starts_k, p, g);
}

template <class T, int HEAD, int BM, int BN, int WARPS, int STAGES>
__global__ void __launch_bounds__(WARPS * 32)
    sums(const T* stored, const T* k, T* dq, float* partial, const int* starts_q,
         const int* starts_k, const Problem p, const Gradients g) {
    stored_query_gradient<T, HEAD, BM, BN, WARPS, STAGES>(stored, k, dq, partial, starts_q,
                                                          starts_k, p, g);
}

template <class T, int HEAD, int WARPS, int MASK, class S, bool DROP>
__global__ void __launch_bounds__(WARPS * 32)
    scores(const T* q, const T* k, const T* v, const void* mask, const T* dout, const float* lse,
           const float* deltas, S* to, const Problem p, const Gradients g, const long long* state,
           long long seed, long long offset) {
    score_gradients<T, HEAD, WARPS, MASK, DROP>(q, k, v, mask, dout, lse, deltas, to, p, g,
                                                {state, seed, offset});
}
