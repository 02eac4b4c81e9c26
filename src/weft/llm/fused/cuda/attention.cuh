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

    __device__ Span(const Shared<C>& shared, int item) {
        const DecodeStep& p = shared.p;
        split = item % p.splits, head = item / p.splits % p.kv_heads;
        token = item / p.splits / p.kv_heads;
        last = shared.positions()[token];
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

// The queries of a block, and the new key and values, in shared memory.
template <class C>
struct Fresh {
    typename C::T queries[C::SHARING][C::SIZE], key[C::SIZE], values[C::SIZE];
    // Of each warp: maxima, sums and results of the queries.
    float most[WARPS][C::SHARING], sum[WARPS][C::SHARING];
    float result[WARPS][C::SHARING][C::SIZE];
};

// Norms and turns head `from`, and calls write(i, value) for its elements; a warp does it.
template <class C, class Write>
__device__ void turn_head(const Shared<C>& shared, const float* from, const typename C::T* weight,
                          int token, bool turns, Write write) {
    const DecodeStep& p = shared.p;
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
    const float *cosine = shared.angles() + 2 * token * p.pairs, *sine = cosine + p.pairs;
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
        turn_head<C>(shared, row + head * C::SIZE, weight, span.token, part < 2,
                     [&](int i, float x) {
                         if (part == 0) fresh.queries[j][i] = to<T>(x);
                         else near[i] = far[i] = to<T>(x);
                     });
    }
    meet_warps();
}

// ---- scores ------------------------------------------------------------------------------------
// Returns the address of a vector of eight elements of a row of a tile, which TMA has swizzled.
__device__ inline unsigned in_tile(const unsigned char* tile, int row, int vector) {
    constexpr int VECTORS = TILE_ROW / 16;
    return shared_address(tile) + vector / VECTORS * (TILE * TILE_ROW) +
           swizzle<TILE_ROW>(row, vector % VECTORS);
}

// The softmax of a warp, which has 16 keys of every other tile. Queries are the rows of products:
// row lane / 4, whose keys four lanes share. Rows from 8 on are zeros.
template <class C>
struct Scores {
    using T = typename C::T;
    static constexpr int KEYS = 16, SHARE = TILE / KEYS, TILES = WARPS / SHARE;
    unsigned query[C::SIZE / 16][2];
    float most = lowest(), sum = 0, result[C::SIZE / 8][4] = {}, s[2][4];

    __device__ explicit Scores(const Fresh<C>& fresh) {
        int row = lane_index() / 4;
        bool is_query = row < C::SHARING;
        auto* words = reinterpret_cast<const unsigned*>(fresh.queries[is_query ? row : 0]);
#pragma unroll
        for (int i = 0; i < C::SIZE / 16; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                query[i][half] = is_query ? words[i * 8 + half * 4 + lane_index() % 4] : 0;
    }
    static __device__ bool has(int tile) { return tile % TILES == warp_index() / SHARE; }
    static __device__ int first() { return warp_index() % SHARE * KEYS; }

    // Puts the new token into its row of a tile, if this warp has it.
    static __device__ void patch(const unsigned char* tile, const T* fresh, int row) {
        if (row < first() || row >= first() + KEYS) return;
        if (lane_index() < C::SIZE / 8) {
            auto words = load<4>(reinterpret_cast<const unsigned*>(fresh) + lane_index() * 4);
            asm volatile(
                "st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(in_tile(tile, row, lane_index())),
                "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                : "memory");
            publish_tiles();  // the ring writes there again
        }
        __syncwarp();
    }
    // Computes the weights of keys of a tile, which has `count`.
    __device__ void weigh(const unsigned char* tile, int count, float scale) {
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) s[n][i] = 0;
        int lane = lane_index(), row = first() + lane / 16 * 8 + lane % 8;
#pragma unroll
        for (int i = 0; i < C::SIZE / 16; ++i) {
            unsigned b[4], a[4] = {query[i][0], 0, query[i][1], 0};
            load_matrices_x4(b, in_tile(tile, row, 2 * i + lane / 8 % 2));
            mma<T>(s[0], a, b), mma<T>(s[1], a, b + 2);
        }
        float before = most;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float& x = s[i / 2][i % 2];
            x = first() + i / 2 * 8 + c_column(i % 2) < count ? x * scale : lowest();
            most = fmaxf(most, x);
        }
        most = group_reduce<4>(most, Maximum());
        float shift = most == lowest() ? 0 : most, factor = exp2_approx(before - shift);
        sum *= factor;
#pragma unroll
        for (int i = 0; i < 4; ++i) sum += s[i / 2][i % 2] = exp2_approx(s[i / 2][i % 2] - shift);
#pragma unroll
        for (int n = 0; n < C::SIZE / 8; ++n) result[n][0] *= factor, result[n][1] *= factor;
    }
    // Adds the values of a tile.
    __device__ void add(const unsigned char* tile, int count) {
        unsigned a[4] = {pack<T>(s[0][0], s[0][1]), 0, pack<T>(s[1][0], s[1][1]), 0};
        int lane = lane_index(), row = first() + lane % 16;
        // Rows behind the last key may hold anything, also what is not a number.
        unsigned keep[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int key = first() + half * 8 + c_column(0);
            keep[half] = (key < count ? 0xffffu : 0) | (key + 1 < count ? 0xffff0000u : 0);
        }
#pragma unroll
        for (int n = 0; n < C::SIZE / 16; ++n) {
            unsigned b[4];
            load_matrices_x4<true>(b, in_tile(tile, row, 2 * n + lane / 16));
#pragma unroll
            for (int i = 0; i < 4; ++i) b[i] &= keep[i % 2];
            mma<T>(result[2 * n], a, b), mma<T>(result[2 * n + 1], a, b + 2);
        }
    }
    // Stores what the warp has.
    __device__ void store(Fresh<C>& fresh) {
        int row = lane_index() / 4, warp = warp_index();
        sum = group_reduce<4>(sum, Plus());
        if (row >= C::SHARING) return;
        if (lane_index() % 4 == 0) fresh.most[warp][row] = most, fresh.sum[warp][row] = sum;
#pragma unroll
        for (int n = 0; n < C::SIZE / 8; ++n)
            *reinterpret_cast<float2*>(&fresh.result[warp][row][n * 8 + c_column(0)]) =
                make_float2(result[n][0], result[n][1]);
    }
};

// The largest score of some keys, the sum of their weights, and that of weighted values.
struct Part {
    float most, sum, value;
};

// Joins `count` parts, AT_ONCE of which are read together: read(s) is part s.
template <int AT_ONCE, class Read>
__device__ Part join_parts(int count, Read read) {
    Part all{lowest(), 0, 0};
#pragma unroll 1
    for (int first = 0; first < count; first += AT_ONCE) {
        Part part[AT_ONCE];
        float before = all.most;
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            part[i] = first + i < count ? read(first + i) : Part{lowest(), 0, 0};
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) all.most = fmaxf(all.most, part[i].most);
        // What is not a number has no largest score, and is kept in the sum.
        float shift = all.most == lowest() ? 0 : all.most, factor = exp2_approx(before - shift);
        all.sum *= factor, all.value *= factor;
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            factor = exp2_approx(part[i].most - shift);
            all.sum += factor * part[i].sum, all.value += factor * part[i].value;
        }
    }
    return all;
}

// Takes a ticket: those who took one before have published what they wrote.
__device__ inline int add_ticket(int* ticket) {
    int before;
    asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_global(ticket))
                 : "memory");
    return before;
}

// Computes the part of a block, and joins the parts of a head in its last block.
template <class C>
__device__ void attend(const Shared<C>& shared, const Memory<typename C::T>& m, int layer,
                       Turns<C>& turns) {
    using T = typename C::T;
    constexpr int RESULTS = C::SHARING * C::SIZE, PART = RESULTS + 2 * C::SHARING;
    const DecodeStep& p = shared.p;
    Fresh<C>& fresh = *reinterpret_cast<Fresh<C>*>(shared.inputs());
    __shared__ bool is_last;
#pragma unroll 1
    for (int item = blockIdx.x; item < Span<C>::count(p); item += gridDim.x) {
        Span<C> span(shared, item);
        take_heads<C>(shared, m, span, layer, fresh);
        Scores<C> scores(fresh);
#pragma unroll 1
        for (int tile = span.begin; tile < span.end; tile += TILE) {
            int count = min(TILE, span.end - tile);
            bool has = Scores<C>::has((tile - span.begin) / TILE);
#pragma unroll
            for (int side = 0; side < 2; ++side, turns.ring.next()) {
                const unsigned char* rows = shared.stage(turns.ring);
                shared.stages->wait_full(turns.ring);
                if (has) {
                    scores.patch(rows, side ? fresh.values : fresh.key, span.last - tile);
                    if (side) scores.add(rows, count);
                    else scores.weigh(rows, count, p.scale);
                }
                shared.release(turns.ring);
            }
        }
        scores.store(fresh);
        meet_warps();
        float* parts = m.partial + static_cast<long long>(item) * PART;
        T* to_row =
            m.attended +
            (static_cast<long long>(span.token) * p.heads + span.head * C::SHARING) * C::SIZE;
        for (int i = threadIdx.x; i < RESULTS; i += THREADS) {
            int r = i / C::SIZE, e = i % C::SIZE;
            Part part = join_parts<WARPS>(WARPS, [&](int w) {
                return Part{fresh.most[w][r], fresh.sum[w][r], fresh.result[w][r][e]};
            });
            if (p.splits == 1) to_row[i] = to<T>(part.value / part.sum);
            else parts[i] = part.value;
            if (p.splits > 1 && e == 0)
                parts[RESULTS + 2 * r] = part.most, parts[RESULTS + 2 * r + 1] = part.sum;
        }
        meet_warps();
        if (p.splits == 1) continue;
        if (threadIdx.x == 0) {
            int* ticket = m.tickets + span.token * p.kv_heads + span.head;
            is_last = add_ticket(ticket) == p.splits - 1;
            if (is_last) atomicExch(ticket, 0);
        }
        meet_warps();
        if (!is_last) continue;
        parts = m.partial + static_cast<long long>(item - span.split) * PART;
        for (int i = threadIdx.x; i < RESULTS; i += THREADS) {
            const float* numbers = parts + RESULTS + 2 * (i / C::SIZE);
            Part part = join_parts<16>(p.splits, [&](int s) {
                float2 of = __ldcg(reinterpret_cast<const float2*>(numbers + s * PART));
                return Part{of.x, of.y, __ldcg(parts + s * PART + i)};
            });
            to_row[i] = to<T>(part.value / part.sum);
        }
    }
}
