// Kernels of batch norm, forward; batch_norm.cuh has what they do.
#include "batch_norm.cuh"

template <class T, class R, int V, bool FLAT, bool RAGGED>
__global__ void __launch_bounds__(256)
    statistics(const T* x, float* mean, float* var, R* running_mean, R* running_var, Moments* found,
               int* counters, ChannelShape s, float size, float momentum) {
    channel_statistics<T, R, V, FLAT, RAGGED>(x, mean, var, running_mean, running_var, found,
                                              counters, s, size, momentum);
}

template <class T, class S, class W, int V, bool FLAT, bool RAGGED>
__global__ void __launch_bounds__(256) apply(const T* x, const S* mean, const S* var, const W* w,
                                             const W* b, T* y, ChannelShape s, float eps) {
    channel_norm<T, S, W, V, FLAT, RAGGED>(x, mean, var, w, b, y, s, eps);
}
