// Cross-entropy of a chunk of logits, whose rows begin at multiples of 16 bytes. With GRAD, the
// gradient takes the place of the logits.
#include "../../loss/cuda/cross_entropy.cuh"

// A block of G threads has a row: REGS vectors of each thread stay in registers, and those behind
// them are read again from the L2 cache. EVEN: a row has whole vectors only. `partials` has the
// loss of each row and its weight; for reduction "none" `losses` has the loss.
template <class T, class L, int V, bool EVEN, int G, int REGS, bool GRAD, bool SMOOTH>
__global__ void __launch_bounds__(G, 1024 / G)
    chunk_rows(T* x, const L* target, const float* upstream, const float* total, float2* partials,
               float* losses, long long pitch, const Classes c) {
    take_turn();
    constexpr const T* UNWEIGHTED = nullptr;
    int t = threadIdx.x, chunks = (c.n + V - 1) / V;
    long long number = blockIdx.x;
    T* row = x + number * pitch;
    int label = Labels<T, L>{target, UNWEIGHTED}.of(number, c);
    PackedRow<T, V, EVEN> r(0, c.n);
    if (label < 0) {
        if constexpr (GRAD)
            for (int k = t; k < chunks; k += G) r.put(row, k, Packed<T, V>{});
        if (t == 0) {
            if (losses) losses[number] = 0;
            else partials[number] = make_float2(0, 0);
        }
        return;
    }
    float x_label = to<float>(row[label]);  // before the block's first barrier, after which it may
                                            // be overwritten
    Packed<T, V> regs[REGS];
#pragma unroll
    for (int k = 0; k < REGS; k++) regs[k] = r.get(row, k * G + t, lowest());
    Running<T> own;
    Smooth smooth;
#pragma unroll 4
    for (int k = REGS * G + t; k < chunks; k += G) {
        Packed<T, V> v = r.get(row, k, lowest());
        own.take(v);
        if constexpr (SMOOTH) smooth.take(v, r, k, UNWEIGHTED);
    }
    float most = own.most;
#pragma unroll
    for (int k = 0; k < REGS; k++) most = max_nan(most, top(regs[k]));
    most = block_max<G>(most);
    own.rise(most);
    Exponential<T> e(most);
    float sum = own.sum;
#pragma unroll
    for (int k = 0; k < REGS; k++) sum = e.add(regs[k], sum), regs[k].forget();
    if constexpr (SMOOTH) {
#pragma unroll
        for (int k = 0; k < REGS; k++) smooth.take(regs[k], r, k * G + t, UNWEIGHTED);
        smooth.x = block_sum<G>(smooth.x), smooth.weight = block_sum<G>(smooth.weight);
    }
    sum = block_sum<G>(sum);
    float s = 0;
    if constexpr (GRAD)
        s = (upstream ? upstream[number * c.upstream_step] : 1) / (total ? *total : 1);
    Outcome<SMOOTH> is(most, sum, smooth, label, 1, x_label, s, c);
    if (t == 0) {
        if (losses) losses[number] = is.loss;
        else partials[number] = make_float2(is.loss, 1);
    }
    if constexpr (GRAD) {
        auto write = [&](const Packed<T, V>& v, int k) {
            r.put(row, k, is.gradients(v, e, r.place(k), c.n, UNWEIGHTED));
        };
#pragma unroll
        for (int k = 0; k < REGS; k++) write(regs[k], k * G + t);
#pragma unroll 4
        for (int k = REGS * G + t; k < chunks; k += G) write(r.get(row, k, lowest()), k);
        // The thread that has written the label's element writes it again.
        if (label / V % G == t)
            row[label] = to<T>(is.gradient(e(x_label), label, UNWEIGHTED) - is.of_label);
    }
}
