// Convolution on tensor cores as an implicit matrix product: the kernels of tensor.cuh.
#include "tensor.cuh"

template <class T, int BM, int BN, int BYTES, int WM, int WN, int STAGES, int RESIDENT, bool BACK,
          bool STREAM_K, bool ROUND>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    tensor(const T* x, const T* weight, const T* bias, T* y, float* parts, int* counters,
           const Conv p) {
    tensor_block<T, BM, BN, BYTES, WM, WN, STAGES, BACK, STREAM_K, ROUND>(
        x, weight, BiasEpilogue<T>{bias}, y, parts, counters, p);
}

// The same with a norm, a residual and ReLU.
template <class T, class Statistic, class Parameter, int BM, int BN, int BYTES, int WM, int WN,
          int STAGES, int RESIDENT, bool BACK, bool STREAM_K, bool ROUND>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, RESIDENT)
    fused_tensor(const T* x, const T* weight, FUSED, T* y, float* parts, int* counters,
                 const Conv p) {
    tensor_block<T, BM, BN, BYTES, WM, WN, STAGES, BACK, STREAM_K, ROUND>(x, weight, OF_FUSED(y), y,
                                                                          parts, counters, p);
}
