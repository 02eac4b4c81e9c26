// The kernel of attention for f16 and bf16 whose keys and values are in pages.
#include "forward.cuh"

template <class T, int HEAD, int BM, int BN, int WARPS, int STAGES, int MASK, int SPLIT, bool DROP,
          int ACROSS>
__global__ void __launch_bounds__(WARPS * 32)
    attend(const T* q, const T* k, const T* v, const void* mask, T* o, float* lse,
           const int* starts_q, const int* lengths, float* partial, int* counters, const Problem p,
           const int* table, int size, int most) {
    attend_tile<T, HEAD, BM, BN, WARPS, STAGES, MASK, SPLIT, DROP, ACROSS, true>(
        q, k, v, mask, o, lse, starts_q, lengths, partial, counters, p, {}, {table, size, most});
}
