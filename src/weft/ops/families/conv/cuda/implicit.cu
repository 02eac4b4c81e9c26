// Convolution in single precision as an implicit matrix product: the kernels of implicit.cuh.
#include "implicit.cuh"

template <int BM, int BN, int BK, int WM, int WN, int TM, int TN, int STAGES, int RESIDENT,
          bool BACK, bool MASKED, bool SPLIT>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    implicit(const float* x, const float* weight, const float* bias, float* y, float* parts,
             int* counters, const Conv p) {
    implicit_block<BM, BN, BK, WM, WN, TM, TN, STAGES, BACK, MASKED, SPLIT>(x, weight, bias, y,
                                                                            parts, counters, p);
}
