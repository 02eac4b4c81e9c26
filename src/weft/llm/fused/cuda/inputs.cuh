// The tokens of a product, arranged in shared memory: normed sums, or results of another product.
#pragma once
#include "problem.cuh"

// Returns the place of eight elements of a token from k on.
template <class C>
__device__ int place_of(int token, int k) {
    int lane = k % C::CHUNK / (8 * C::VECTORS), vector = k / 8 % C::VECTORS;
    return ((k / C::CHUNK * C::VECTORS + vector) * C::TOKENS + token) * 4 + lane;
}

// Stores eight elements of a token, and the sums of chunks of weights that have an offset. All
// lanes of a warp call it with neighbouring k, of one token; `inside` is the same for a chunk.
template <class C>
__device__ void store_inputs(const Shared<C>& shared, int token, int k, bool inside,
                             const Vector<unsigned, 4>& x) {
    unsigned words[4];
    if constexpr (C::BITS == 4) arrange<Weights::INT4>(words, &x[0]);
    else
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = x[i];
    if (inside) shared.inputs()[place_of<C>(token, k)] = {words[0], words[1], words[2], words[3]};
    if constexpr (C::OFFSET) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            sum += unpack<typename C::T>(x[i], 0) + unpack<typename C::T>(x[i], 1);
        sum = group_reduce<C::CHUNK / 8>(sum, Plus());
        if (inside && k % C::CHUNK == 0) shared.sums()[k / C::CHUNK * C::TOKENS + token] = sum;
    }
}

// Vectors of eight elements of a token that a thread has at the most; THREADS / TOKENS threads
// have a token.
constexpr int MOST = 8;

// Divides the sums of a token by the root of their mean square, and multiplies them by a weight.
template <class C>
__device__ void take_normed(const Shared<C>& shared, const float* x, const typename C::T* weight) {
    using T = typename C::T;
    constexpr int EACH = THREADS / C::TOKENS, SHARE = WARPS / C::TOKENS;
    __shared__ float squares[WARPS];
    int token = threadIdx.x / EACH, thread = threadIdx.x % EACH, width = shared.p.width;
    const float* from = x + token * width;
    float values[MOST][8], sum = 0;
#pragma unroll
    for (int v = 0; v < MOST; ++v) {
        int k = (v * EACH + thread) * 8;
        if (k >= width) continue;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            auto four = load_written(from + k + half * 4);
#pragma unroll
            for (int i = 0; i < 4; ++i) values[v][half * 4 + i] = four[i];
        }
    }
#pragma unroll
    for (int v = 0; v < MOST; ++v)
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if ((v * EACH + thread) * 8 < width) sum += values[v][i] * values[v][i];
    sum = warp_sum(sum);
    if (lane_index() == 0) squares[warp_index()] = sum;
    meet_warps();
    sum = 0;
#pragma unroll
    for (int i = 0; i < SHARE; ++i) sum += squares[token * SHARE + i];
    float scale = rsqrtf(sum / width + shared.p.eps);
#pragma unroll
    for (int v = 0; v < MOST; ++v) {
        if (v * EACH * 8 >= width) break;
        int k = (v * EACH + thread) * 8;
        bool inside = k < width;
        auto made = fill<4>(0u);
        if (inside) {
            auto w = load<4>(reinterpret_cast<const unsigned*>(weight + k));
#pragma unroll
            for (int i = 0; i < 4; ++i)
                made[i] = pack<T>(values[v][2 * i] * scale * unpack<T>(w[i], 0),
                                  values[v][2 * i + 1] * scale * unpack<T>(w[i], 1));
        }
        store_inputs<C>(shared, token, k, inside, made);
    }
    meet_warps();
}

// Takes the tokens [TOKENS, k] as they are.
template <class C>
__device__ void take_plain(const Shared<C>& shared, const typename C::T* x, int k) {
    constexpr int EACH = THREADS / C::TOKENS;
    int token = threadIdx.x / EACH, thread = threadIdx.x % EACH;
    const typename C::T* from = x + static_cast<long long>(token) * k;
#pragma unroll 4
    for (int first = 0; first < k; first += EACH * 8) {
        int at = first + thread * 8;
        auto words = fill<4>(0u);
        if (at < k) words = load_written(reinterpret_cast<const unsigned*>(from + at));
        store_inputs<C>(shared, token, at, at < k, words);
    }
    meet_warps();
}
