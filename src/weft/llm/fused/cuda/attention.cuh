// Attention of new tokens. Blocks share the keys of the heads of a text; keys and values pass
// through the ring in tiles, and those of the new token come from the product before. The last
// block of a head joins the results.
#pragma once
#include "problem.cuh"

// The keys of a head of a text that a block has: from `begin` on, before `end`. The last key of the
// text is the new token's, which is not in the cache yet.
template <class C>
struct Span {
    int token, head, split, begin, end, last;
    long long row;  // of the cache

    __device__ Span(const DecodeStep& p, const int* positions, int item) {
        split = item % p.splits, head = item / p.splits % p.kv_heads;
        token = item / p.splits / p.kv_heads;
        last = positions[token];
        int each = ceil_div(last + 1, p.splits);
        begin = split * each, end = min(last + 1, begin + each);
        row = static_cast<long long>(token) * p.capacity;
    }
    static __device__ int count(const DecodeStep& p) { return C::TOKENS * p.kv_heads * p.splits; }
    // The place of a key or of values in the cache.
    __device__ long long at(const DecodeStep& p, int key) const {
        return ((row + key) * p.kv_heads + head) * C::SIZE;
    }
    __device__ bool has_new() const { return begin <= last && last < end; }
};

// Copies the keys and values of a block to the ring; the lanes of a warp call it.
template <class C>
__device__ void copy_keys(const Shared<C>& shared, const int* positions, int layer,
                          Turn<C::STAGES>& turn) {
    using T = typename C::T;
    constexpr int BYTES = C::SIZE * sizeof(T);
    const T* cached[] = {shared.template at<const T>(layer, KEYS),
                         shared.template at<const T>(layer, VALUES)};
    for (int item = blockIdx.x; item < Span<C>::count(shared.p); item += gridDim.x) {
        Span<C> span(shared.p, positions, item);
        for (int tile = span.begin; tile < span.end; tile += TILE)
#pragma unroll
            for (int side = 0; side < 2; ++side, turn.next()) {
                int rows = max(0, min(TILE, min(span.end, span.last) - tile));
                unsigned to = shared_address(shared.stage(turn));
                Barrier& full = shared.stages->full[turn.stage];
                shared.stages->wait_empty(turn);
                if (lane_index() == 0) full.arrive_expecting(rows * BYTES);
                __syncwarp();
                for (int r = lane_index(); r < rows; r += 32)
                    load_bytes(to + r * BYTES, cached[side] + span.at(shared.p, tile + r), full,
                               BYTES);
            }
    }
}

// The queries of a block, and the new key and values, in shared memory.
template <class C>
struct Fresh {
    float queries[C::SHARING][C::SIZE];
    typename C::T key[C::SIZE], values[C::SIZE];
    // Of each warp: maxima, sums and results of the queries.
    float most[WARPS][C::SHARING], sum[WARPS][C::SHARING];
    float result[WARPS][C::SHARING][C::SIZE];
};

// Norms and turns head `from`, and calls write(i, value) for its elements; a warp does it.
template <class C, class Write>
__device__ void turn_head(const DecodeStep& p, const Memory<typename C::T>& m, const float* from,
                          const typename C::T* weight, int position, bool turns, Write write) {
    float scale = 1;
    if (weight) {
        float squares = 0;
        for (int i = lane_index(); i < C::SIZE; i += 32)
            squares += __ldcg(from + i) * __ldcg(from + i);
        scale = rsqrtf(warp_sum(squares) / C::SIZE + p.eps);
    }
    auto read = [&](int i) {
        return __ldcg(from + i) * (weight ? scale * to<float>(weight[i]) : 1);
    };
    int pairs = turns ? p.pairs : 0;
    const float* cosine = m.cosines + static_cast<long long>(position) * p.pairs;
    const float* sine = m.sines + static_cast<long long>(position) * p.pairs;
    for (int i = lane_index(); i < pairs; i += 32) {
        float a = read(i), b = read(i + pairs);
        write(i, a * cosine[i] - b * sine[i]);
        write(i + pairs, b * cosine[i] + a * sine[i]);
    }
    for (int i = 2 * pairs + lane_index(); i < C::SIZE; i += 32) write(i, read(i));
}

// Makes the queries of a block; the block that has the last key stores it, with its values.
template <class C>
__device__ void take_heads(const Shared<C>& shared, const Memory<typename C::T>& m,
                           const Span<C>& span, int layer, Fresh<C>& fresh) {
    using T = typename C::T;
    const DecodeStep& p = shared.p;
    const float* row =
        m.heads + static_cast<long long>(span.token) * (p.heads + 2 * p.kv_heads) * C::SIZE;
    for (int j = warp_index(); j < C::SHARING + 2 * span.has_new(); j += WARPS) {
        int part = max(0, j - C::SHARING + 1);
        int head = part == 0   ? span.head * C::SHARING + j
                   : part == 1 ? p.heads + span.head
                               : p.heads + p.kv_heads + span.head;
        T* near = part == 1 ? fresh.key : fresh.values;
        T* far = shared.template at<T>(layer, part == 1 ? KEYS : VALUES) + span.at(p, span.last);
        const T* weight =
            part == 2 ? nullptr
                      : shared.template at<const T>(layer, part == 0 ? QUERY_NORM : KEY_NORM);
        turn_head<C>(p, m, row + head * C::SIZE, weight, span.last, part < 2, [&](int i, float x) {
            if (part == 0) fresh.queries[j][i] = x * p.scale;
            else near[i] = far[i] = to<T>(x);
        });
    }
    meet_warps();
}

// ---- scores ------------------------------------------------------------------------------------
// Lanes that share a key, each with eight elements of it; others of a warp have other keys. Each
// group of lanes has a softmax of its own until the end.
template <class C>
struct Scores {
    static constexpr int LANES = C::SIZE / 8, KEYS = 32 / LANES, STEPS = TILE / (WARPS * KEYS);
    float query[C::SHARING][8], most[C::SHARING], sum[C::SHARING] = {};
    float result[C::SHARING][8] = {};

    static __device__ int key(int step) {
        return (step * WARPS + warp_index()) * KEYS + lane_index() / LANES;
    }
    static __device__ int element() { return lane_index() % LANES * 8; }

    __device__ explicit Scores(const Fresh<C>& fresh) {
#pragma unroll
        for (int r = 0; r < C::SHARING; ++r) {
            most[r] = lowest();
#pragma unroll
            for (int i = 0; i < 8; ++i) query[r][i] = fresh.queries[r][element() + i];
        }
    }
    // Returns eight elements of a row of a tile, or of the new token.
    __device__ Vector<float, 8> read(const unsigned char* tile, const typename C::T* fresh, int key,
                                     bool is_new) const {
        using T = typename C::T;
        const T* row = is_new ? fresh : reinterpret_cast<const T*>(tile) + key * C::SIZE;
        return to_floats(load<8>(row + element()));
    }
    // Computes the weights of the keys of a tile, `count` of them; key `last` is the new one.
    __device__ void weigh(float (&s)[STEPS][C::SHARING], const unsigned char* tile,
                          const typename C::T* fresh, int count, int last) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
#pragma unroll
            for (int r = 0; r < C::SHARING; ++r) s[step][r] = lowest();
            if (step * WARPS * KEYS >= count) continue;
            int k = min(key(step), count - 1);
            Vector<float, 8> x = read(tile, fresh, k, k == last);
#pragma unroll
            for (int r = 0; r < C::SHARING; ++r) {
                float dot = 0;
#pragma unroll
                for (int i = 0; i < 8; ++i) dot += query[r][i] * x[i];
                dot = group_reduce<LANES>(dot, Plus());
                if (key(step) < count) s[step][r] = dot;
            }
        }
#pragma unroll
        for (int r = 0; r < C::SHARING; ++r) {
            float before = most[r];
#pragma unroll
            for (int step = 0; step < STEPS; ++step) most[r] = fmaxf(most[r], s[step][r]);
            float shift = most[r] == lowest() ? 0 : most[r], factor = exp2_approx(before - shift);
            sum[r] *= factor;
#pragma unroll
            for (int i = 0; i < 8; ++i) result[r][i] *= factor;
#pragma unroll
            for (int step = 0; step < STEPS; ++step)
                sum[r] += s[step][r] = exp2_approx(s[step][r] - shift);
        }
    }
    // Adds the values of a tile.
    __device__ void add(const float (&s)[STEPS][C::SHARING], const unsigned char* tile,
                        const typename C::T* fresh, int count, int last) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step * WARPS * KEYS >= count) continue;
            int k = min(key(step), count - 1);
            Vector<float, 8> x = read(tile, fresh, k, k == last);
#pragma unroll
            for (int r = 0; r < C::SHARING; ++r)
#pragma unroll
                for (int i = 0; i < 8; ++i) result[r][i] += s[step][r] * x[i];
        }
    }
    // Joins the groups of a warp, and stores what it has.
    __device__ void store(Fresh<C>& fresh) {
        int warp = warp_index();
#pragma unroll
        for (int r = 0; r < C::SHARING; ++r) {
            float all = strided_reduce<LANES>(most[r], Maximum());
            float factor = all == lowest() ? 0 : exp2_approx(most[r] - all);
            float total = strided_reduce<LANES>(sum[r] * factor, Plus());
            if (lane_index() == 0) fresh.most[warp][r] = all, fresh.sum[warp][r] = total;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                float value = strided_reduce<LANES>(result[r][i] * factor, Plus());
                if (lane_index() < LANES) fresh.result[warp][r][element() + i] = value;
            }
        }
    }
};

// Joins `count` partial results: most(s), sum(s) and result(s) are those of part s. Returns their
// quotient; with `whole` false, sets `at_most` and `total` and returns the sum of results.
template <class Most, class Sum, class Result>
__device__ float join_parts(int count, Most most, Sum sum, Result result, float& at_most,
                            float& total) {
    float value = 0;
    at_most = lowest(), total = 0;
    for (int s = 0; s < count; ++s) at_most = fmaxf(at_most, most(s));
#pragma unroll 8
    for (int s = 0; s < count; ++s) {
        float factor = most(s) == lowest() ? 0 : exp2_approx(most(s) - at_most);
        total += factor * sum(s), value += factor * result(s);
    }
    return value;
}

// Computes the part of a block, and joins the parts of a head in its last block.
template <class C>
__device__ void attend(const Shared<C>& shared, const Memory<typename C::T>& m, int layer,
                       Turn<C::STAGES>& turn) {
    using T = typename C::T;
    constexpr int RESULTS = C::SHARING * C::SIZE, PART = RESULTS + 2 * C::SHARING;
    const DecodeStep& p = shared.p;
    Fresh<C>& fresh = *reinterpret_cast<Fresh<C>*>(shared.inputs());
    __shared__ bool is_last;
#pragma unroll 1
    for (int item = blockIdx.x; item < Span<C>::count(p); item += gridDim.x) {
        Span<C> span(p, m.positions, item);
        take_heads<C>(shared, m, span, layer, fresh);
        Scores<C> scores(fresh);
#pragma unroll 1
        for (int tile = span.begin; tile < span.end; tile += TILE) {
            int count = min(TILE, span.end - tile);
            float s[Scores<C>::STEPS][C::SHARING];
#pragma unroll
            for (int side = 0; side < 2; ++side, turn.next()) {
                shared.stages->wait_full(turn);
                const unsigned char* rows = shared.stage(turn);
                if (side == 0) scores.weigh(s, rows, fresh.key, count, span.last - tile);
                else scores.add(s, rows, fresh.values, count, span.last - tile);
                __syncwarp();
                if (lane_index() == 0) shared.stages->empty[turn.stage].arrive();
            }
        }
        scores.store(fresh);
        meet_warps();
        float* parts = m.partial + static_cast<long long>(item) * PART;
        T* to_row =
            m.attended +
            (static_cast<long long>(span.token) * p.heads + span.head * C::SHARING) * C::SIZE;
        for (int i = threadIdx.x; i < RESULTS; i += THREADS) {
            int r = i / C::SIZE;
            float most, sum;
            float value = join_parts(
                WARPS, [&](int w) { return fresh.most[w][r]; },
                [&](int w) { return fresh.sum[w][r]; },
                [&](int w) { return fresh.result[w][r][i % C::SIZE]; }, most, sum);
            if (p.splits == 1) {
                to_row[i] = to<T>(value / sum);
                continue;
            }
            parts[i] = value;
            if (i % C::SIZE == 0) parts[RESULTS + 2 * r] = most, parts[RESULTS + 2 * r + 1] = sum;
        }
        if (p.splits == 1) {
            meet_warps();
            continue;
        }
        __threadfence();
        meet_warps();
        if (threadIdx.x == 0) {
            int* ticket = m.tickets + span.token * p.kv_heads + span.head;
            is_last = atomicAdd(ticket, 1) == p.splits - 1;
            if (is_last) atomicExch(ticket, 0);
        }
        meet_warps();
        if (is_last) {
            __threadfence();
            parts = m.partial + static_cast<long long>(item - span.split) * PART;
            for (int i = threadIdx.x; i < RESULTS; i += THREADS) {
                const float* numbers = parts + RESULTS + 2 * (i / C::SIZE);
                float most, sum;
                float value = join_parts(
                    p.splits, [&](int s) { return __ldcg(numbers + s * PART); },
                    [&](int s) { return __ldcg(numbers + s * PART + 1); },
                    [&](int s) { return __ldcg(parts + s * PART + i); }, most, sum);
                to_row[i] = to<T>(value / sum);
            }
        }
        meet_warps();
    }
}
