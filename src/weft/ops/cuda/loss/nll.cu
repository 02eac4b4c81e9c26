// The negative log-likelihood: log-probabilities at labels, one thread per label.
#include "classes.cuh"

// The element of a label in a contiguous tensor whose rows are `stride` apart where they are contiguous themselves.
__device__ inline long long place(long long i, int label, long long stride, const Classes& c) {
    return c.inner == 1 ? i * stride + label : (i / c.inner * c.n + label) * c.inner + i % c.inner;
}

template <class T, class L>
__global__ void __launch_bounds__(256) nll(const T* x, const L* target, const T* weight, T* loss, float2* partials,
                                           int* counter, const Classes c) {
    Labels<T, L> labels{target, weight};
    float losses = 0, weights = 0;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < c.count; i += gridDim.x * 256ll) {
        int label = labels.of(i, c);
        float w = labels.weigh(label), one = label < 0 ? 0 : -w * to<float>(x[place(i, label, c.stride, c)]);
        if (c.reduction == NONE) loss[i] = to<T>(one);
        losses += one, weights += w;
    }
    if (c.reduction != NONE) reduce_losses<256>(losses, weights, partials, counter, loss, c);
}

// The gradient at each label; that of all other elements is 0.
template <class T, class L>
__global__ void __launch_bounds__(256) nll_gradient(const L* target, const T* weight, const T* upstream,
                                                    const float* total, T* gradient, const Classes c) {
    Labels<T, L> labels{target, weight};
    float norm = labels.template sum<256>(c, total);
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < c.count; i += gridDim.x * 256ll) {
        int label = labels.of(i, c);
        if (label >= 0)
            gradient[place(i, label, c.n, c)] = to<T>(-labels.weigh(label) * to<float>(upstream[i * c.upstream_step]) / norm);
    }
}
