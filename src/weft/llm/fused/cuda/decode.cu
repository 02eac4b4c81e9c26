// One token of each text through all layers of a decoder, in one launch.
//
// Blocks stay, one on each SM. A warp of each copies weights, keys and values to a ring of stages,
// in the order in which the others use them, layer after layer, so that memory is busy while blocks
// wait for each other. They meet five times in a layer: after each product and after attention.
#include "attention.cuh"
#include "copies.cuh"
#include "inputs.cuh"
#include "product.cuh"

// Computes the step; `meet` waits for the other blocks.
template <class C, class Meet>
__device__ void compute_all(const Shared<C>& shared, const Memory<typename C::T>& m, Meet meet) {
    using T = typename C::T;
    const DecodeStep& p = shared.p;
    Turns<C> turns;
#pragma unroll 1
    for (int i = 0; i < p.products; ++i) {
        int layer = i / 4, part = i % 4;
        if (part == 1) {
            attend<C>(shared, m, layer, turns);
            meet();
        }
        Product<C> product(shared, i);
        if (part % 2 == 0) take_normed<C>(shared, m.x, turns);
        else take_plain<C>(shared, part == 1 ? m.attended : m.hidden, product.row * 8 / C::BITS);
        multiply<C>(product, shared, m, turns);
        if (product.to != To::LOGITS) meet();
    }
}

template <class T, int BITS, Weights F, bool GROUPED, int TOKENS, int SIZE, int SHARING, int STAGES>
__global__ void __launch_bounds__(THREADS + 32, 1)
    decode(const long long* words, const TensorMap* maps, const long long* tokens,
           const int* positions, const T* embedding, const float* cosines, const float* sines,
           float* x, float* heads, float* partial, T* attended, T* hidden, int* counters, T* logits,
           const __grid_constant__ DecodeStep p) {
    using C = Config<T, BITS, F, GROUPED, TOKENS, SIZE, SHARING, STAGES>;
    extern __shared__ __align__(1024) unsigned char bytes[];
    __shared__ Stages<STAGES> stages;
    __shared__ Stages<SHARED_SUMS> shared_sums;
    Shared<C> shared{bytes, &stages, &shared_sums, maps, p};
    for (int i = threadIdx.x; i < (p.layers + 1) * WORDS; i += THREADS + 32)
        shared.words()[i] = words[i];
    for (int i = threadIdx.x; i < 2 * TOKENS * p.pairs; i += THREADS + 32) {
        int token = i / p.pairs / 2;
        long long row = positions[token] * static_cast<long long>(p.pairs);
        shared.angles()[i] = (i / p.pairs % 2 ? sines : cosines)[row + i % p.pairs];
    }
    if (threadIdx.x < TOKENS) shared.positions()[threadIdx.x] = positions[threadIdx.x];
    if (threadIdx.x == 0) stages.init(1, WARPS), shared_sums.init(WARPS, 1);
    __syncthreads();
    if (threadIdx.x >= THREADS) {
        if (lane_index() == 0) Copies<C>{shared}.all();
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
    compute_all<C>(shared, {x, heads, partial, attended, hidden, logits, counters + 1}, meet);
    if (threadIdx.x == 0) meetings.leave();
}
