// The kernels of attention for f16 and bf16 with few queries, whose keys and values go straight to
// registers: contiguous or in pages.
#include "direct.cuh"

template <class T, int HEAD, int WARPS, int MASK, int SPLIT>
__global__ void __launch_bounds__(WARPS * 32)
    direct(const T* q, const T* k, const T* v, const void* mask, T* o, float* lse,
           const int* starts_q, const int* starts_k, float* partial, int* counters,
           const Problem p) {
    attend_directly<T, HEAD, WARPS, MASK, SPLIT, false>(q, k, v, mask, o, lse, starts_q, starts_k,
                                                        partial, counters, p);
}

template <class T, int HEAD, int WARPS, int MASK, int SPLIT>
__global__ void __launch_bounds__(WARPS * 32)
    direct_paged(const T* q, const T* k, const T* v, const void* mask, T* o, float* lse,
                 const int* starts_q, const int* lengths, float* partial, int* counters,
                 const Problem p, const int* table, int size, int most) {
    attend_directly<T, HEAD, WARPS, MASK, SPLIT, true>(q, k, v, mask, o, lse, starts_q, lengths,
                                                       partial, counters, p, {table, size, most});
}
