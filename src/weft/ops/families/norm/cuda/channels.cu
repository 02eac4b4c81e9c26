// Kernels of batch norm, forward; batch_norm.cuh has what they do.
#include "batch_norm.cuh"

template <class T, class R, class Walk>
__global__ void __launch_bounds__(256)
    statistics(const T* x, float* mean, float* var, R* running_mean, R* running_var, Moments* found,
               int* counters, ChannelShape s, float size, float momentum) {
    channel_statistics<T, R, Walk>(x, mean, var, running_mean, running_var, found, counters, s,
                                   size, momentum);
}

template <class T, class S, class W, class Walk>
__global__ void __launch_bounds__(256) apply(const T* x, const S* mean, const S* var, const W* w,
                                             const W* b, T* y, ChannelShape s, float eps) {
    channel_norm<T, S, W, Walk>(x, mean, var, w, b, y, s, eps);
}
