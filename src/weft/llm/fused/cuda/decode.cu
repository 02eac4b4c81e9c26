// One token of each text through all layers of a decoder, in one launch.
//
// Blocks stay, one on each SM. A warp of each copies weights, keys and values to a ring of stages,
// in the order in which the others use them, layer after layer: none of them depends on what the
// step computes, so memory is busy while blocks wait for each other. They meet five times in a
// layer: after each product and after attention.
#include "attention.cuh"
#include "inputs.cuh"
#include "product.cuh"

// Copies all that a block needs, in order.
template <class C>
__device__ void copy_all(const Shared<C>& shared, const int* positions) {
    Turn<C::STAGES> turn;
#pragma unroll 1
    for (int i = 0; i < shared.p.products; ++i) {
        if (i % 4 == 1) copy_keys<C>(shared, positions, i / 4, turn);
        copy_weights<C>(Product<C>(shared, i), shared, turn);
    }
}

// Computes the step; `meet` waits for the other blocks.
template <class C, class Meet>
__device__ void compute_all(const Shared<C>& shared, const Memory<typename C::T>& m, Meet meet) {
    using T = typename C::T;
    const DecodeStep& p = shared.p;
    Turn<C::STAGES> turn;
#pragma unroll 1
    for (int i = 0; i < p.products; ++i) {
        int layer = i / 4, part = i % 4;
        if (part == 1) {
            attend<C>(shared, m, layer, turn);
            meet();
        }
        Product<C> product(shared, i);
        if (part % 2 == 0)
            take_normed<C>(shared, m.x, shared.template at<const T>(layer, part ? NORM2 : NORM1));
        else take_plain<C>(shared, part == 1 ? m.attended : m.hidden, product.k);
        multiply<C>(product, shared, m, turn);
        if (product.to != To::LOGITS) meet();
    }
}

template <class T, int BITS, Weights F, bool GROUPED, int TOKENS, int SIZE, int SHARING, int STAGES>
__global__ void __launch_bounds__(THREADS + 32, 1)
    decode(const long long* words, const long long* tokens, const int* positions,
           const T* embedding, const float* cosines, const float* sines, float* x, float* heads,
           float* partial, T* attended, T* hidden, int* counters, T* logits,
           const __grid_constant__ DecodeStep p) {
    using C = Config<T, BITS, F, GROUPED, TOKENS, SIZE, SHARING, STAGES>;
    extern __shared__ __align__(128) unsigned char bytes[];
    __shared__ Stages<STAGES> stages;
    Shared<C> shared{bytes, &stages, p};
    auto* table = reinterpret_cast<long long*>(bytes + p.words);
    for (int i = threadIdx.x; i < (p.layers + 1) * WORDS; i += THREADS + 32) table[i] = words[i];
    if (threadIdx.x == 0) stages.init(1, WARPS);
    __syncthreads();
    if (threadIdx.x >= THREADS) {
        copy_all<C>(shared, positions);
        return;
    }
    Meetings meetings(counters, gridDim.x);
    auto meet = [&] {
        meet_warps();
        if (threadIdx.x == 0) meetings.meet();
        meet_warps();
    };
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < TOKENS * p.width; i += gridDim.x * THREADS)
        x[i] = to<float>(embedding[tokens[i / p.width] * p.width + i % p.width]);
    meet();
    compute_all<C>(shared,
                   {positions, embedding, cosines, sines, x, heads, partial, attended, hidden,
                    logits, counters + 1},
                   meet);
    if (threadIdx.x == 0) meetings.leave();
}
