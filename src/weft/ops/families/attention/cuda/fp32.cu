// The kernel of attention for floats.
#include "fp32.cuh"

template <int HEAD, int MASK, bool DROP, bool SPLIT, int QUERIES, int KEYS>
__global__ void __launch_bounds__(256)
    attend(const float* q, const float* k, const float* v, const void* mask, float* o, float* lse,
           const int* starts_q, const int* starts_k, float* partial, int* counters, const Problem p,
           const long long* state, long long seed, long long offset EXPRESSION_PARAMETERS) {
    TAKE_EXPRESSION(mask);
    attend_floats<float, HEAD, MASK, DROP, SPLIT, QUERIES, KEYS>(
        q, k, v, mask, o, lse, starts_q, starts_k, p, {state, seed, offset}, partial, counters);
}
