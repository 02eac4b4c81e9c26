// The tokens of a product, arranged in shared memory: normed sums, or results of another product.
#pragma once
#include "problem.cuh"

// Returns `k` rounded up to whole pieces of a row.
template <class C>
__device__ int whole_pieces(int k) {
    return ceil_div(k, C::DEEP) * C::DEEP;
}

// Returns the place of eight elements of 16 bits of a token from k on.
template <class C>
__device__ Vector<unsigned, 4>& place_of(const Shared<C>& shared, int token, int k) {
    int lane = k % C::CHUNK / (8 * C::VECTORS), vector = k / 8 % C::VECTORS;
    int at = ((k / C::CHUNK * C::VECTORS + vector) * C::TOKENS + token) * 4 + lane;
    return shared.inputs()[at];
}

// Returns a power of two that makes integers below 2^22 of numbers up to `most`, which are not all
// smaller than normal ones; not a number where one of them is none, or infinite: results are that.
__device__ inline float to_integers(float most) {
    int exponent = max(__float_as_int(most) >> 23, 22);
    if (exponent >= 255) return __int_as_float(0x7fffffff);
    return __int_as_float((127 + 21 + 127 - exponent) << 23);
}

// Stores eight elements of a token, times `factor`, as integers of PLANES bytes, and what the
// offsets of weights add for each chunk. All lanes of a warp call it with neighbouring k of one
// token.
template <class C>
__device__ void store_planes(const Shared<C>& shared, int token, int k, bool inside,
                             const Vector<unsigned, 4>& x, float factor) {
    int value[8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
        value[i] = __float2int_rn(unpack<typename C::T>(x[i / 2], i) * factor);
    constexpr int LANE = C::CHUNK / 4;  // k of a lane
    int lane = k % C::CHUNK / LANE, at = k % LANE;
#pragma unroll
    for (int plane = C::PLANES - 1; plane >= 0; --plane) {
        unsigned words[2] = {};
        int sum = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            int low = static_cast<signed char>(value[i]);
            value[i] = (value[i] - low) >> 8, sum += low;
            // Weights of 4 bits are multiplied in the order 0 2 4 6, 1 3 5 7.
            int place = C::BITS == 4 ? i % 2 * 4 + i / 2 : i;
            words[place / 4] |= (low & 0xff) << place % 4 * 8;
        }
        int column = token * C::PLANES + plane;
        auto* vector = shared.inputs() +
                       ((k / C::CHUNK * C::VECTORS + at / 16) * C::COLUMNS + column) * 4 + lane;
        if (inside)
            *reinterpret_cast<uint2*>(reinterpret_cast<unsigned char*>(vector) + at % 16) =
                make_uint2(words[0], words[1]);
        if constexpr (C::BITS == 4) {
            sum = group_reduce<C::CHUNK / 8>(sum, Plus());
            if (inside && k % C::CHUNK == 0)
                shared.sums()[k / C::CHUNK * C::COLUMNS + column] = -8 * sum;
        }
    }
}

// What the threads of a token have found: the sum of squares, and the largest element.
struct Found {
    float squares, most;
};

// Joins what the threads of a token have found, of which the block has THREADS / TOKENS.
template <class C>
__device__ Found join_found(Found own) {
    constexpr int SHARE = WARPS / C::TOKENS;
    __shared__ Found slots[WARPS];
    own = {warp_sum(own.squares), warp_reduce(own.most, Maximum())};
    if (lane_index() == 0) slots[warp_index()] = own;
    meet_warps();
    Found all{0, 0};
#pragma unroll
    for (int i = 0; i < SHARE; ++i) {
        Found of = slots[warp_index() / SHARE * SHARE + i];
        all = {all.squares + of.squares, max_nan(all.most, of.most)};
    }
    return all;
}

// Divides the sums of a token by the root of their mean square, and multiplies them by a weight,
// which is a stage of the ring. A thread has up to MOST vectors of a token.
template <class C>
__device__ void take_normed(const Shared<C>& shared, const float* x, Turns<C>& turns) {
    using T = typename C::T;
    constexpr int EACH = THREADS / C::TOKENS, MOST = 4 * C::TOKENS;
    int token = threadIdx.x / EACH, thread = threadIdx.x % EACH, width = shared.p.width;
    const float* from = x + token * width;
    float values[MOST][8];
    Found found{0, 0};
#pragma unroll
    for (int v = 0; v < MOST; ++v) {
        int k = (v * EACH + thread) * 8;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            auto four = fill<4>(0.0f);
            if (k < width) four = load_written(from + k + half * 4);
#pragma unroll
            for (int i = 0; i < 4; ++i) values[v][half * 4 + i] = four[i];
        }
    }
    const T* weight = reinterpret_cast<const T*>(shared.stage(turns.ring));
    shared.stages->wait_full(turns.ring);
#pragma unroll
    for (int v = 0; v < MOST; ++v) {
        int k = (v * EACH + thread) * 8;
        if (k >= width) continue;
        auto w = load<4>(reinterpret_cast<const unsigned*>(weight + k));
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            found.squares += values[v][i] * values[v][i];
            values[v][i] *= unpack<T>(w[i / 2], i);
            found.most = max_nan(found.most, fabsf(values[v][i]));
        }
    }
    shared.release(turns.ring);
    turns.ring.next();
    found = join_found<C>(found);
    float scale = rsqrtf(found.squares / width + shared.p.eps);
    float factor = to_integers(to<float>(to<T>(found.most * scale)));  // as elements are rounded
    if (C::INTEGER && thread == 0) shared.factors()[token] = 1 / factor;
    int whole = whole_pieces<C>(width);
#pragma unroll
    for (int v = 0; v < MOST; ++v) {
        if (v * EACH * 8 >= whole) break;
        int k = (v * EACH + thread) * 8;
        Vector<unsigned, 4> made;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            made[i] = pack<T>(values[v][2 * i] * scale, values[v][2 * i + 1] * scale);
        if constexpr (C::INTEGER) store_planes<C>(shared, token, k, k < whole, made, factor);
        else if (k < whole) place_of(shared, token, k) = made;
    }
    meet_warps();
}

// Takes the tokens [TOKENS, k] as they are.
template <class C>
__device__ void take_plain(const Shared<C>& shared, const typename C::T* x, int k) {
    using T = typename C::T;
    constexpr int EACH = THREADS / C::TOKENS;
    int token = threadIdx.x / EACH, thread = threadIdx.x % EACH, whole = whole_pieces<C>(k);
    const T* from = x + static_cast<long long>(token) * k;
    auto read = [&](int at) {
        if (at >= k) return fill<4>(0u);
        return load_written(reinterpret_cast<const unsigned*>(from + at));
    };
    if constexpr (!C::INTEGER) {
#pragma unroll 4
        for (int at = thread * 8; at < whole; at += EACH * 8)
            place_of(shared, token, at) = read(at);
    } else {
        // Vectors of a thread: those behind the first ones are read twice.
        constexpr int MOST = 8;
        Vector<unsigned, 4> kept[MOST];
        Found found{0, 0};
        auto look = [&](const Vector<unsigned, 4>& words) {
#pragma unroll
            for (int i = 0; i < 8; ++i)
                found.most = max_nan(found.most, fabsf(unpack<T>(words[i / 2], i)));
        };
#pragma unroll
        for (int v = 0; v < MOST; ++v) kept[v] = read((v * EACH + thread) * 8);
#pragma unroll
        for (int v = 0; v < MOST; ++v) look(kept[v]);
        for (int at = (MOST * EACH + thread) * 8; at < k; at += EACH * 8) look(read(at));
        float factor = to_integers(join_found<C>(found).most);
        if (thread == 0) shared.factors()[token] = 1 / factor;
#pragma unroll
        for (int v = 0; v < MOST; ++v) {
            if (v * EACH * 8 >= whole) break;
            int at = (v * EACH + thread) * 8;
            store_planes<C>(shared, token, at, at < whole, kept[v], factor);
        }
        for (int first = MOST * EACH * 8; first < whole; first += EACH * 8) {
            int at = first + thread * 8;
            store_planes<C>(shared, token, at, at < whole, read(at), factor);
        }
    }
    meet_warps();
}
