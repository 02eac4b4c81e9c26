// The kernel of attention for f16 and bf16 on Hopper.
#include "warpgroup_forward.cuh"

template <class T, int HEAD, int BN, int WARPGROUPS, int BUFFERS, int MASK, bool ORDERED>
__global__ void __launch_bounds__(128 * (WARPGROUPS + 1), 1)
    attend(const T* q, const T* k, const T* v, const void* mask, T* o, float* lse,
           const int* starts_q, const int* starts_k, int* counters, const Problem p) {
    attend_warpgroups<T, HEAD, BN, WARPGROUPS, BUFFERS, MASK, ORDERED>(
        q, k, v, mask, o, lse, starts_q, starts_k, counters, p);
}
