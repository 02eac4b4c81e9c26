// Rows of logits that are regs on chip, from one read to the gradient.
#pragma once
#include "cross_entropy.cuh"

// G threads hold a row: REGS vectors each in registers and SHARED in shared memory. Without a
// counter, `partials` has the loss of each row instead of each block, and `join_rows` joins them:
// blocks of one row would wait for the sum at their end.
template <class T, class L, int V, bool EVEN, int G, int REGS, int SHARED, bool LOSS, bool GRAD,
          bool SMOOTH>
__device__ void hold_rows(const T* x, const L* target, const T* weight, const T* upstream,
                          const float* total, T* loss, float2* partials, T* gradient, int* counter,
                          const Classes& c) {
    constexpr int BLOCK = G <= 32 ? 128 : G,
                  TOGETHER = BLOCK / G;  // a row of more than a warp has a block of its own
    extern __shared__ __align__(16) char memory[];
    auto* lying = reinterpret_cast<Packed<T, V>*>(memory);
    Labels<T, L> labels{target, weight};
    float norm = GRAD ? labels.template sum<BLOCK>(c, total) : 1, losses = 0, weights = 0;
    int t = threadIdx.x % G;
    for (long long first = blockIdx.x * (long long)TOGETHER; first < c.count;
         first += gridDim.x * (long long)TOGETHER) {
        long long row = first + threadIdx.x / G;
        bool there = row < c.count;
        const T* from_row = x + row * c.stride;
        PackedRow<T, V, EVEN> all(row * c.n, there ? c.n : 0);
        auto chunk = [&](int k) { return k * G + t; };
        // This part of the row is on its way before the label has come; the other is read only if
        // the row counts.
#pragma unroll
        for (int k = 0; k < SHARED; k++)
            all.fetch(lying + k * G + t, from_row, chunk(REGS + k), lowest());
        int label = there ? labels.of(row, c) : -1;
        PackedRow<T, V, EVEN> r(row * c.n, label < 0 ? 0 : c.n);
        Packed<T, V> regs[REGS];
#pragma unroll
        for (int k = 0; k < REGS; k++) regs[k] = r.get(from_row, chunk(k), lowest());
        float x_label = label < 0 ? 0 : to<float>(from_row[label]);
        float most = top(regs[0]), sum = 0;
#pragma unroll
        for (int k = 1; k < REGS; k++) most = max_nan(most, top(regs[k]));
        if (SHARED) wait_all_copies();
#pragma unroll 4
        for (int k = 0; k < SHARED; k++) most = max_nan(most, top(lying[k * G + t]));
        most = block_max<G>(most);
        Exponential<T> e(most);
#pragma unroll
        for (int k = 0; k < REGS; k++) sum = e.add(regs[k], sum), regs[k].forget();
#pragma unroll 2
        for (int k = 0; k < SHARED; k++) sum = e.add(lying[k * G + t], sum);
        Smooth smooth;
        if constexpr (SMOOTH) {
#pragma unroll
            for (int k = 0; k < REGS; k++)
                smooth.take(regs[k], r, chunk(k), weight), regs[k].forget();
            for (int k = 0; k < SHARED; k++)
                smooth.take(lying[k * G + t], r, chunk(REGS + k), weight);
            smooth.x = block_sum<G>(smooth.x), smooth.weight = block_sum<G>(smooth.weight);
        }
        sum = block_sum<G>(sum);
        float s = GRAD && label >= 0
                      ? (upstream ? to<float>(upstream[row * c.upstream_step]) : 1) / norm
                      : 0;
        Outcome<SMOOTH> is(most, sum, smooth, label, labels.weigh(label), x_label, s, c);
        if (LOSS && t == 0 && there) {
            if (c.reduction == NONE) loss[row] = to<T>(is.loss);
            else if (!counter) partials[row] = make_float2(is.loss, is.weight);
            else losses += is.loss, weights += is.weight;
        }
        if constexpr (GRAD) {
            T* to_row = gradient + row * c.n;
            auto write = [&](const Packed<T, V>& v, int at) {
                all.put(to_row, at,
                        label < 0 ? Packed<T, V>{} : is.gradients(v, e, r.place(at), c.n, weight));
            };
#pragma unroll
            for (int k = 0; k < REGS; k++) write(regs[k], chunk(k));
#pragma unroll 2
            for (int k = 0; k < SHARED; k++) write(lying[k * G + t], chunk(REGS + k));
            // The thread that has written the label's element writes it again.
            if (label >= 0 && (label + r.lead) / V % G == t)
                to_row[label] = to<T>(is.gradient(e(x_label), label, weight) - is.of_label);
        }
    }
    if (LOSS && c.reduction != NONE && counter)
        reduce_losses<BLOCK>(losses, weights, partials, counter, loss, c);
}
