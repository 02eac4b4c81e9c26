// Shared parts of the kernels of classification losses: labels and their weights, and the sum over
// all of them.
#pragma once
#include <assert.h>

#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>

using namespace weft;

enum Reduction { NONE, MEAN, SUM };

STRUCT_CLASSES  // see structs.py

    template <class T, class L>
    struct Labels {
    const L* target;
    const T* weight;

    // The class of a label; -1 if it does not count. One that is no class stops the kernel, as in
    // PyTorch.
    __device__ int of(long long i, const Classes& c) const { return checked(target[i], c); }
    static __device__ int checked(long long label, const Classes& c) {
        if (label == c.ignore) return -1;
        assert(label >= 0 && label < c.n && "a label must be 0 to classes - 1, or ignore_index");
        return int(label);
    }
    __device__ float weigh(int label) const {
        return label < 0 ? 0 : weight ? to<float>(weight[label]) : 1;
    }

    // The sum of all weights, by all threads of a block. `total` has it already where labels are
    // many.
    template <int BLOCK>
    __device__ float sum(const Classes& c, const float* total) const {
        if (c.reduction != MEAN) return 1;
        if (total) return *total;
        float sum = 0;
        for (long long i = threadIdx.x; i < c.count; i += BLOCK) sum += weigh(of(i, c));
        return block_sum<BLOCK>(sum);
    }
};

// Adds what the threads of all blocks have, in an order that does not depend on timing, and stores
// the result: the sum of the losses, or their mean.
template <int BLOCK, class T>
__device__ void reduce_losses(float loss, float weight, float2* partials, int* counter, T* out,
                              const Classes& c) {
    auto join = [](float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); };
    float2 all = block_reduce<BLOCK>(make_float2(loss, weight), float2{}, join);
    if (gridDim.x > 1) {
        if (threadIdx.x == 0) partials[blockIdx.x] = all;
        if (!is_last_block(counter, gridDim.x)) return;
        all = {};
        for (int i = threadIdx.x; i < gridDim.x; i += BLOCK) all = join(all, __ldcg(partials + i));
        all = block_reduce<BLOCK>(all, float2{}, join);
    }
    if (threadIdx.x == 0) *out = to<T>(c.reduction == MEAN ? all.x / all.y : all.x);
}

// The sum of the weights of all labels, for kernels whose blocks need it at once.
template <class T, class L>
__global__ void __launch_bounds__(256)
    total_weight(const L* target, const T* weight, float2* partials, float* total, int* counter,
                 const Classes c) {
    take_turn();
    Labels<T, L> labels{target, weight};
    float sum = 0;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < c.count; i += gridDim.x * 256ll)
        sum += labels.weigh(labels.of(i, c));
    Classes plain = c;
    plain.reduction = SUM;
    reduce_losses<256>(sum, 0, partials, counter, total, plain);
}
