// Matrix products on Hopper of 16-bit elements, or of 32-bit ones in tf32. SUMS: rows of A are
// summed too, see row_sums.cuh. O: elements of the results, if they are others than those of A.
#include "k_major.cuh"
#include "multiply_tiles.cuh"
#include "row_sums.cuh"

template <class T, class S, class R, bool A_KMAJOR, bool B_KMAJOR, bool SUMS>
__device__ void multiply(const OperandMaps& A, const OperandMaps& B, const TensorMap& to_boxes,
                         const typename R::T* bias, typename R::T* C, typename R::T* row_sums,
                         const Problem& p) {
    if constexpr (SUMS) {
        RowSums<T, S, A_KMAJOR, B_KMAJOR, typename R::T> sums{{}, row_sums};
        multiply_tiles<S, R>(A, B, to_boxes, bias, C, p, sums);
    } else {
        TensorSums<T, S, A_KMAJOR, B_KMAJOR> sums;
        multiply_tiles<S, R>(A, B, to_boxes, bias, C, p, sums);
    }
}

// A block for an SM: a warpgroup copies.
template <class T, int BM, int BN, int STAGES, int SPLITS, bool A_KMAJOR, bool B_KMAJOR,
          bool TRANSPOSED, bool WHOLE, int ACTIVATION, int BIAS, bool SUMS, class O = T>
__global__ void __launch_bounds__(BM * 2 + 128, 1)
    pipelined(MAPS, const O* bias, O* C, O* row_sums, const __grid_constant__ Problem p) {
    multiply<T, Schedule<BM, BN, STAGES, 1, SPLITS>,
             Results<O, TRANSPOSED, WHOLE, ACTIVATION, BIAS>, A_KMAJOR, B_KMAJOR, SUMS>(
        OF_MAPS, A, bias, C, row_sums, p);
}

// The same, with a map of C.
template <class T, int BM, int BN, int STAGES, int SPLITS, bool A_KMAJOR, bool B_KMAJOR,
          int ACTIVATION, int BIAS, bool SUMS>
__global__ void __launch_bounds__(BM * 2 + 128, 1)
    pipelined_boxes(MAPS, const __grid_constant__ TensorMap C, const T* bias, T* row_sums,
                    const __grid_constant__ Problem p) {
    multiply<T, Schedule<BM, BN, STAGES, 1, SPLITS, false, true>,
             Results<T, false, true, ACTIVATION, BIAS>, A_KMAJOR, B_KMAJOR, SUMS>(
        OF_MAPS, C, bias, nullptr, row_sums, p);
}

// The same, with warpgroups that take turns.
template <class T, int BM, int BN, int STAGES, int SPLITS, bool A_KMAJOR, bool B_KMAJOR,
          bool TRANSPOSED, bool WHOLE, int ACTIVATION, int BIAS, bool SUMS>
__global__ void __launch_bounds__(384, 1)
    pipelined_in_turns(MAPS, const T* bias, T* C, T* row_sums, const __grid_constant__ Problem p) {
    multiply<T, Schedule<BM, BN, STAGES, 1, SPLITS, true>,
             Results<T, TRANSPOSED, WHOLE, ACTIVATION, BIAS>, A_KMAJOR, B_KMAJOR, SUMS>(
        OF_MAPS, A, bias, C, row_sums, p);
}

// RESIDENT blocks for an SM: a warp copies. The compiler would count it as a warpgroup and leave
// each thread too few registers, so they are named.
template <class T, int BM, int BN, int STAGES, int RESIDENT, int SPLITS, bool A_KMAJOR,
          bool B_KMAJOR, bool TRANSPOSED, bool WHOLE, int ACTIVATION, int BIAS, bool SUMS,
          class O = T>
__global__ void __maxnreg__((Registers<BM / 16 + 1, RESIDENT>::LAUNCH))
    pipelined_beside(MAPS, const O* bias, O* C, O* row_sums, const __grid_constant__ Problem p) {
    multiply<T, Schedule<BM, BN, STAGES, RESIDENT, SPLITS>,
             Results<O, TRANSPOSED, WHOLE, ACTIVATION, BIAS>, A_KMAJOR, B_KMAJOR, SUMS>(
        OF_MAPS, A, bias, C, row_sums, p);
}
