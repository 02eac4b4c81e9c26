// The kernel of attention for f16 and bf16 on Hopper.
#include "tma_forward.cuh"

template <class T, int HEAD, int BN, int WARPGROUPS, int STAGES, int SLOTS, int MASK, int MASKS,
          bool SPLIT, int PACK, bool IN_TURNS, bool REGISTERS, bool BOXES, int BLOCKS>
__global__ void __launch_bounds__(128 * (WARPGROUPS + 1), BLOCKS)
    attend(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
           const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap mask_map,
           const __grid_constant__ TensorMap out_map, const void* mask, T* o, float* lse,
           const int* starts_q, const int* starts_k, float* partial, int* counters,
           const __grid_constant__ Problem p,
           const __grid_constant__ Units units EXPRESSION_PARAMETERS) {
    TAKE_EXPRESSION(mask);
    attend_units<T, HEAD, BN, WARPGROUPS, STAGES, SLOTS, MASK, MASKS, SPLIT, PACK, IN_TURNS,
                 REGISTERS, BOXES, BLOCKS>(q, k, v, mask_map, out_map, mask, o, lse, starts_q,
                                           starts_k, partial, counters, p, units);
}
