// The negative log-likelihood: log-probabilities at labels, one thread per label.
#include "classes.cuh"

STRUCT_LOGITSTRIDES

struct Logits : LogitStrides {
    __device__ long long place(long long i, int label, long long inner) const {
        if (inner == 1) return i * row + label * step;
        long long behind = i % inner;
        return i / inner * row + label * step + behind / last * far + behind % last * near;
    }
};

template <class T, class L>
__global__ void __launch_bounds__(256)
    nll(const T* x, const L* target, const T* weight, T* loss, float2* partials, int* counter,
        const Classes c, const Logits logits) {
    take_turn();
    Labels<T, L> labels{target, weight};
    float losses = 0, weights = 0;
    constexpr int TURNS = 4;  // labels whose loads are under way together
    long long step = gridDim.x * 256ll;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < c.count; i += TURNS * step) {
        long long given[TURNS];
        int label[TURNS];
        T value[TURNS];
#pragma unroll
        for (int u = 0; u < TURNS; u++)
            given[u] = i + u * step < c.count ? target[i + u * step] : c.ignore;
#pragma unroll
        for (int u = 0; u < TURNS; u++) label[u] = labels.checked(given[u], c);
#pragma unroll
        for (int u = 0; u < TURNS; u++)
            if (label[u] >= 0) value[u] = x[logits.place(i + u * step, label[u], c.inner)];
#pragma unroll
        for (int u = 0; u < TURNS; u++) {
            float w = labels.weigh(label[u]), one = label[u] < 0 ? 0 : -w * to<float>(value[u]);
            if (c.reduction == NONE && i + u * step < c.count) loss[i + u * step] = to<T>(one);
            losses += one, weights += w;
        }
    }
    if (c.reduction != NONE) reduce_losses<256>(losses, weights, partials, counter, loss, c);
}

// The gradient at each label; that of all other elements is 0.
template <class T, class L>
__global__ void __launch_bounds__(256)
    nll_gradient(const L* target, const T* weight, const T* upstream, const float* total,
                 T* gradient, const Classes c) {
    take_turn();
    Labels<T, L> labels{target, weight};
    float norm = labels.template sum<256>(c, total);
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < c.count; i += gridDim.x * 256ll) {
        int label = labels.of(i, c);
        if (label >= 0)
            gradient[(i / c.inner * c.n + label) * c.inner + i % c.inner] =
                to<T>(-labels.weigh(label) * to<float>(upstream[i * c.upstream_step]) / norm);
    }
}
