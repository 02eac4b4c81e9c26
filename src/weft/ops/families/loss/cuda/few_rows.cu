// Cross-entropy of so few rows that one cluster has them all: latencies are the whole time.
#include <weft/cluster.cuh>

#include "cross_entropy.cuh"

// G threads have a row: up to 32, or the block. No load waits for another: labels, the logits of
// rows whose label does not count, and all weights are on their way together. The blocks of a
// cluster add their losses through shared memory; for other results there is no cluster.
template <class T, class L, int V, bool EVEN, int G, int REGS, int BLOCK, bool LOSS, bool GRAD,
          bool SMOOTH>
__global__ void __launch_bounds__(BLOCK)
    few_rows(const T* x, const L* target, const T* weight, const T* upstream, T* loss, T* gradient,
             const Classes c) {
    static_assert(G <= 32 || G == BLOCK, "a warp has whole rows, or the block has one");
    take_turn();
    int t = threadIdx.x % G;
    long long row = blockIdx.x * (BLOCK / G) + threadIdx.x / G;
    bool there = row < c.count;
    const T* from_row = x + row * c.stride;
    PackedRow<T, V, EVEN> r(row * c.n, there ? c.n : 0);
    Labels<T, L> labels{target, weight};
    auto chunk = [&](int k) { return k * G + t; };
    long long given = there ? target[row] : c.ignore;
    Packed<T, V> regs[REGS];
#pragma unroll
    for (int k = 0; k < REGS; k++) regs[k] = r.get(from_row, chunk(k), lowest());
    float s = GRAD && there && upstream ? to<float>(upstream[row * c.upstream_step]) : 1;
    if (GRAD) s /= labels.template sum<BLOCK>(c, nullptr);
    int label = labels.checked(given, c);
    float x_label = label < 0 ? 0 : to<float>(from_row[label]), w = labels.weigh(label);
    float most = top(regs[0]), sum = 0;
#pragma unroll
    for (int k = 1; k < REGS; k++) most = max_nan(most, top(regs[k]));
    most = block_max<G>(most);
    Exponential<T> e(most);
#pragma unroll
    for (int k = 0; k < REGS; k++) sum = e.add(regs[k], sum), regs[k].forget();
    Smooth smooth;
    if constexpr (SMOOTH) {
#pragma unroll
        for (int k = 0; k < REGS; k++) smooth.take(regs[k], r, chunk(k), weight);
        smooth.x = block_sum<G>(smooth.x), smooth.weight = block_sum<G>(smooth.weight);
    }
    sum = block_sum<G>(sum);
    Outcome<SMOOTH> is(most, sum, smooth, label, w, x_label, label < 0 ? 0 : s, c);
    if constexpr (GRAD) {
        T* to_row = gradient + row * c.n;
#pragma unroll
        for (int k = 0; k < REGS; k++) {
            int at = r.place(chunk(k));
            r.put(to_row, chunk(k),
                  label < 0 ? Packed<T, V>{} : is.gradients(regs[k], e, at, c.n, weight));
            // The thread that has written the label's element writes it again.
            if (label >= max(at, 0) && label < at + V)
                to_row[label] = to<T>(is.gradient(e(x_label), label, weight) - is.of_label);
        }
    }
    if constexpr (LOSS) {
        bool counts = t == 0 && there;
        if (c.reduction == NONE) {
            if (counts) loss[row] = to<T>(is.loss);
            return;
        }
        auto join = [](float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); };
        float2 all = counts ? make_float2(is.loss, is.weight) : float2{};
        all = block_reduce<BLOCK>(all, float2{}, join);
        if (gridDim.x > 1) all = cluster_reduce(all, float2{}, join);
        if (threadIdx.x == 0 && blockIdx.x == 0)
            *loss = to<T>(c.reduction == MEAN ? all.x / all.y : all.x);
        if (gridDim.x > 1) cluster_wait();
    }
}
