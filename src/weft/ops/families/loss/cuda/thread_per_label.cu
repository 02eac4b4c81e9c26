// Cross-entropy of up to 4 classes that are not contiguous, with one thread for a label. The
// classes are less work than their addresses, and their loads are few, so a thread has several
// labels at a time.
#include "cross_entropy.cuh"

template <class T, class L, int N, bool LOSS, bool GRAD, bool SMOOTH>
__global__ void __launch_bounds__(256)
    thread_per_label(const T* x, const L* target, const T* weight, const T* upstream,
                     const float* total, T* loss, float2* partials, T* gradient, int* counter,
                     const Classes c) {
    take_turn();
    constexpr int U = N <= 2 ? 4 : 2;  // labels at a time
    Labels<T, L> labels{target, weight};
    float norm = GRAD ? labels.template sum<256>(c, total) : 1, losses = 0, weights = 0;
    for (long long first = blockIdx.x * (256ll * U) + threadIdx.x; first < c.count;
         first += gridDim.x * (256ll * U)) {
        long long given[U], start[U];
        T read[U][N];
#pragma unroll
        for (int u = 0; u < U; u++) {
            long long row = first + u * 256, outer = 0;
            if (row >= c.count) continue;
            if (N > 1)
                outer = c.count < 1ll << 32 ? unsigned(row) / unsigned(c.inner) : row / c.inner;
            given[u] = target[row], start[u] = row + outer * (N - 1) * c.inner;
#pragma unroll
            for (int k = 0; k < N; k++) read[u][k] = x[start[u] + k * c.inner];
        }
#pragma unroll
        for (int u = 0; u < U; u++) {
            long long row = first + u * 256;
            if (row >= c.count) continue;
            int label = labels.checked(given[u], c);
            float v[N], most = lowest(), sum = 0, x_label = 0;
            Smooth smooth;
#pragma unroll
            for (int k = 0; k < N; k++) {
                v[k] = label < 0 ? lowest()
                                 : to<float>(read[u][k]);  // a label that does not count hides NaN
                most = max_nan(most, v[k]);
                if (SMOOTH) smooth.add(v[k], k, weight);
                if (k == label) x_label = v[k];
            }
            Exponential<T> e(most);
#pragma unroll
            for (int k = 0; k < N; k++) sum += e(v[k]);
            float s = GRAD && label >= 0
                          ? (upstream ? to<float>(upstream[row * c.upstream_step]) : 1) / norm
                          : 0;
            Outcome<SMOOTH> is(most, sum, smooth, label, labels.weigh(label), x_label, s, c);
            if (LOSS) {
                if (c.reduction == NONE) loss[row] = to<T>(is.loss);
                else losses += is.loss, weights += is.weight;
            }
            if constexpr (GRAD)
#pragma unroll
                for (int k = 0; k < N; k++)
                    gradient[start[u] + k * c.inner] =
                        to<T>(is.gradient(e(v[k]), k, weight) - (k == label ? is.of_label : 0));
        }
    }
    if (LOSS && c.reduction != NONE)
        reduce_losses<256>(losses, weights, partials, counter, loss, c);
}
