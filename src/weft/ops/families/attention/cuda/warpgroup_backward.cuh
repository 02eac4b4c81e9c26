// Gradients of attention for f16 and bf16 on Hopper, by warpgroups as in warpgroup_forward.cuh. A
// block has 128 fixed rows, and streams tiles of others past them. One kernel has keys and values,
// and streams queries and the gradients of their results; another has these, and streams keys and
// values. With left operands A1, A2 and streamed ones B1, B2 both compute
//   S = A1 B1',   dW = A2 B2',   W = exp2(S - lse),   dS = W * (dW - delta),   and then   dS B1,
//   for keys also W B2,
// which are the gradients of keys and values, or of queries. Nothing is added atomically.
#pragma once
#include "backward.cuh"
#include "warpgroup_forward.cuh"

// A block's tiles of streamed rows, from `from` up to `to`: those of keys, or those of the queries
// of all heads that share the keys.
template <bool KEYS>
struct Stream {
    Place at;
    Span span;
    int first, rows, head0, from, to;  // fixed rows from `first` on, of `rows`
    int begin, each, cut;  // tiles of a head; those that a mask cuts begin, or end, at `cut`

    __device__ Stream(const Problem& p, const Gradients& g, const int* starts_q,
                      const int* starts_k, int id, int fixed, int streamed, bool free)
        : at(p, tiles(p, fixed), heads(p), 0, p.batch * heads(p), id),
          span(p, starts_q, starts_k, at.batch) {
        // The last queries see the most keys, and the first keys are seen by the most queries:
        // these are first.
        first = (KEYS ? tiles(p, fixed) - 1 - at.tile : at.tile) * fixed,
        rows = KEYS ? span.keys : span.rows;
        head0 = KEYS ? at.head * p.group : at.head, begin = 0;
        if constexpr (KEYS) {
            int count = (span.rows + streamed - 1) / streamed;
            cut = 0;
            if (p.causal) {
                begin = min(count, max(0, first - span.diagonal) / streamed);
                cut =
                    min(count, max(0, first + fixed - 1 - span.diagonal + streamed - 1) / streamed);
            }
            if (!free || first + fixed > span.keys) cut = count;
            each = count - begin;
        } else {
            int seen = span.keys, all = span.keys;
            if (p.causal) {
                seen = max(0, min(seen, min(first + fixed, span.rows) + span.diagonal));
                all = max(0, min(all, first + span.diagonal + 1));
            }
            each = (seen + streamed - 1) / streamed, cut = free ? all / streamed : 0;
        }
        at.share(p, first < rows ? each * (KEYS ? p.group : 1) : 0, from, to);
    }
    __device__ static int tiles(const Problem& p, int fixed) {
        return ((KEYS ? p.keys : p.rows) + fixed - 1) / fixed;
    }
    __device__ static int heads(const Problem& p) { return KEYS ? p.heads / p.group : p.heads; }
    __device__ static int count(const Problem& p, int fixed) {
        return tiles(p, fixed) * heads(p) * p.batch * p.parts;
    }

    __device__ int head(int t) const { return KEYS ? head0 + t / each : head0; }
    __device__ int tile(int t) const { return KEYS ? begin + t % each : t; }
    __device__ bool guarded(int tile) const { return KEYS ? tile < cut : tile >= cut; }
};

// BS: streamed rows of a tile. For heads of more than 128, the registers of a warpgroup hold one
// gradient of 64 keys: both warpgroups have the same keys, one computes their gradient, and the
// other one that of their values, for which it needs the weights alone.
__device__ constexpr bool divided(int head, bool keys) { return keys && head > 128; }
__device__ constexpr int fixed_rows(int head, bool keys) { return divided(head, keys) ? 64 : 128; }

template <class T, int HEAD, int BS, int STAGES, int MASK, bool KEYS>
__device__ void gradient_warpgroups(const T* q, const T* k, const T* v, const void* mask,
                                    const T* dout, const float* lse, const float* deltas, T* to1,
                                    T* to2, float* partial, const int* starts_q,
                                    const int* starts_k, int* counters, const Problem& p,
                                    const Gradients& g) {
    constexpr int WARPGROUPS = 2, FIXED = fixed_rows(HEAD, KEYS), N = BS / 8;
    constexpr int WIDTH = HEAD / 8, PIECE = HEAD <= 192 ? HEAD : 128;
    static_assert(HEAD % PIECE == 0, "whole pieces");
    constexpr int TILE = tile_bytes(BS, HEAD), LEFT = tile_bytes(FIXED, HEAD);
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ Barrier left_full, left_empty, full[STAGES], empty[STAGES];
    __shared__ Tickets tickets;
    __shared__ __align__(
        16) float sums[STAGES][2][BS];  // logarithms and deltas of streamed queries
    unsigned lefts = slab_aligned(shared_address(memory)), rights = lefts + 2 * LEFT;
    if (threadIdx.x == 0) {
        tickets.start(WARPGROUPS * 4 + 4);
        left_full.init(128), left_empty.init(WARPGROUPS * 4);
        for (int i = 0; i < STAGES; ++i) full[i].init(128), empty[i].init(WARPGROUPS * 4);
    }
    __syncthreads();
    int count = Stream<KEYS>::count(p, FIXED), warpgroup = warpgroup_index();

    if (warpgroup == WARPGROUPS) {
        fewer_registers<40>();
        int thread = threadIdx.x % 128, n = 0, round = 0;
        auto fetch_two = [&](auto rows, unsigned to, const T* first, const T* second,
                             long long step1, long long step2, int at, int all) {
            constexpr int ROWS = decltype(rows)::value;
            fetch_slabs<ROWS, HEAD>(to, first, step1, at, all, p.depth, thread);
            fetch_slabs<ROWS, HEAD>(to + tile_bytes(ROWS, HEAD), second, step2, at, all, p.width,
                                    thread);
        };
        auto fetch_queries = [&](auto rows, unsigned to, const Stream<KEYS>& work, int head,
                                 int at) {
            int b = work.at.batch, row0 = work.span.row0;
            fetch_two(rows, to, q + p.q.at(b, head, row0), dout + g.dout.at(b, head, row0), p.q.row,
                      g.dout.row, at, work.span.rows);
        };
        auto fetch_keys = [&](auto rows, unsigned to, const Stream<KEYS>& work, int at) {
            int b = work.at.batch, head = work.head0 / p.group, key0 = work.span.key0;
            fetch_two(rows, to, k + p.k.at(b, head, key0), v + p.v.at(b, head, key0), p.k.row,
                      p.v.row, at, work.span.keys);
        };
#pragma unroll 1
        for (int id; (id = tickets.take(round)) < count; ++round) {
            int next = thread == 0 ? tickets.draw(counters) : 0;
            Stream<KEYS> work(p, g, starts_q, starts_k, id, FIXED, BS, MASK == FREE);
            left_empty.wait(round % 2 ^ 1);
            if constexpr (KEYS) fetch_keys(Count<FIXED>(), lefts, work, work.first);
            else fetch_queries(Count<FIXED>(), lefts, work, work.head0, work.first);
            left_full.arrive_after_copies();
#pragma unroll 1
            for (int t = work.from; t < work.to; ++t, ++n) {
                int stage = n % STAGES, at = work.tile(t) * BS;
                empty[stage].wait(n / STAGES % 2 ^ 1);
                unsigned to = rights + stage * 2 * TILE;
                if constexpr (KEYS) {
                    int head = work.head(t), r = at + thread;
                    fetch_queries(Count<BS>(), to, work, head, at);
                    // Rows that are not there get zeros: their queries and gradients are zeros as
                    // well.
                    if (thread < BS) {
                        long long of = p.lse.at(work.at.batch, head, work.span.row0) + r;
                        copy_async<4>(&sums[stage][0][thread], lse + of, r < work.span.rows);
                        copy_async<4>(&sums[stage][1][thread], deltas + of, r < work.span.rows);
                    }
                } else {
                    fetch_keys(Count<BS>(), to, work, at);
                }
                full[stage].arrive_after_copies();
            }
            if (thread == 0) tickets.put(round + 1, next);
        }
        if (thread == 0) tickets.end(counters);
        wait_copies<0>();
        return;
    }
    more_registers<232>();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, n = 0, round = 0;
    int row_group = FIXED == 64 ? 0 : warpgroup;
    unsigned long long left = wgmma_rows(lefts + row_group * slab_bytes(64)),
                       rows_right = wgmma_rows(rights), right = wgmma_columns<BS>(rights);
    float scale = MASK == FREE ? p.scale : 1;
    auto release = [&](Barrier& b) {
        if (lane == 0) b.arrive();
    };
    // FIRST, SECOND: the gradients that this warpgroup computes.
    auto compute = [&](auto of_first, auto of_second) {
        constexpr bool FIRST = decltype(of_first)::value, SECOND = decltype(of_second)::value;
#pragma unroll 1
        for (int id; (id = tickets.take(round)) < count; ++round) {
            Stream<KEYS> work(p, g, starts_q, starts_k, id, FIXED, BS, MASK == FREE);
            const Span& span = work.span;
            int b = work.at.batch, mine = work.first + row_group * 64 + warp * 16;
            [[maybe_unused]] float first[1][FIRST ? WIDTH : 1][4] = {},
                                                            second[1][SECOND ? WIDTH : 1][4] = {};
            [[maybe_unused]] float s[1][N][4], dw[1][FIRST ? N : 1][4];
            [[maybe_unused]] unsigned scores[FIRST ? BS / 16 : 1][4];
            [[maybe_unused]] unsigned weights[SECOND ? BS / 16 : 1][4];
            // Of this lane's queries, where they are fixed.
            [[maybe_unused]] float log[2], delta[2];
            [[maybe_unused]] Rows<T, 1, MASK> view(p, span, mask, b, work.head0, KEYS ? 0 : mine,
                                                   max(1, span.rows));
            if constexpr (!KEYS) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    int r = mine + i * 8 + lane / 4;
                    long long of = p.lse.at(b, work.head0, span.row0) + r;
                    log[i] = r < span.rows ? log_of_sum(lse[of]) : INFINITY,
                    delta[i] = r < span.rows ? deltas[of] : 0;
                }
            }
            auto product = [&](float (&c)[N][4], int operand, int stage) {
                unsigned long long a = left + operand * LEFT / 16,
                                   to = rows_right + (stage * 2 + operand) * TILE / 16;
#pragma unroll
                for (int i = 0; i < HEAD / 16; ++i) {
                    unsigned long long column = i % 4 * 2;
                    wgmma<T>(c, a + (i / 4 * slab_bytes(FIXED) / 16 + column),
                             to + (i / 4 * slab_bytes(BS) / 16 + column), i > 0);
                }
                wgmma_commit();
            };
            auto add = [&](float (&c)[WIDTH][4], const unsigned (&x)[BS / 16][4], int operand,
                           int stage) {
                unsigned long long to = right + (stage * 2 + operand) * TILE / 16;
#pragma unroll
                for (int i = 0; i < BS / 16; ++i)
#pragma unroll
                    for (int at = 0; at < HEAD; at += PIECE)
                        wgmma_left<T>(reinterpret_cast<float (&)[PIECE / 8][4]>(c[at / 8]), x[i],
                                      to + (i * slab_bytes(16) + at / 64 * slab_bytes(BS)) / 16);
            };
            auto hide_columns = [&](int head, int tile) {
                int start = tile * BS + lane % 4 * 2;
#pragma unroll
                for (int x = 0; x < 2 * N; ++x) {
                    Row<T, MASK> row;
                    row.set(p, span, mask, b, head, min(start + x / 2 * 8 + x % 2, span.rows - 1));
#pragma unroll
                    for (int y = 0; y < 2; ++y) {
                        float& value = s[0][x / 2][y * 2 + x % 2];
                        value = row.masked(value, mine + y * 8 + lane / 4, p.scale);
                    }
                }
            };
            left_full.wait(round % 2);
            // The products of a tile's gradients run until the scores of the next tile have been
            // issued.
#pragma unroll 1
            for (int t = work.from; t < work.to; ++t, ++n) {
                int stage = n % STAGES, tile = work.tile(t);
                full[stage].wait(n / STAGES % 2);
                publish_tiles();
                wgmma_begin();
                product(s[0], 0, stage);
                wgmma_wait<1>();
                if (t > work.from) release(empty[(n - 1) % STAGES]);
                if constexpr (FIRST) product(dw[0], 1, stage);
                wgmma_wait<FIRST ? 1 : 0>();
                wgmma_results(s[0]);
                if (work.guarded(tile)) {
                    if constexpr (KEYS) hide_columns(work.head(t), tile);
                    else view.hide(s, tile * BS, p.scale);
                }
                [[maybe_unused]] const float* of = &sums[stage][0][lane % 4 * 2];
#pragma unroll
                for (int i = 0; i < N; ++i) {
                    [[maybe_unused]] float2 logs = {};
                    if constexpr (KEYS) {
                        logs = *reinterpret_cast<const float2*>(of + i * 8);
                        logs.x = log_of_sum(logs.x), logs.y = log_of_sum(logs.y);
                    }
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        float base = KEYS ? (e % 2 ? logs.y : logs.x) : log[e / 2];
                        s[0][i][e] = exp2_approx(fmaf(s[0][i][e], scale, -base));
                    }
                }
                if constexpr (FIRST) {
                    wgmma_wait<0>();
                    wgmma_results(dw[0]);
#pragma unroll
                    for (int i = 0; i < N; ++i) {
                        [[maybe_unused]] float2 of_columns = {};
                        if constexpr (KEYS)
                            of_columns = *reinterpret_cast<const float2*>(of + BS + i * 8);
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            dw[0][i][e] =
                                s[0][i][e] *
                                (dw[0][i][e] -
                                 (KEYS ? (e % 2 ? of_columns.y : of_columns.x) : delta[e / 2]));
                    }
                }
#pragma unroll
                for (int i = 0; i < BS / 16; ++i) {
                    if constexpr (SECOND) c_to_a<T>(weights[i], s[0][2 * i], s[0][2 * i + 1]);
                    if constexpr (FIRST) c_to_a<T>(scores[i], dw[0][2 * i], dw[0][2 * i + 1]);
                }
                wgmma_begin();
                if constexpr (SECOND) add(second[0], weights, 1, stage);
                if constexpr (FIRST) add(first[0], scores, 0, stage);
                wgmma_commit();
            }
            wgmma_wait<0>();
            if constexpr (FIRST) wgmma_results(first[0]);
            if constexpr (SECOND) wgmma_results(second[0]);
            if (work.from < work.to) release(empty[(n - 1) % STAGES]);
            release(left_empty);
            if constexpr (FIRST) {
#pragma unroll
                for (int i = 0; i < WIDTH; ++i)
#pragma unroll
                    for (int e = 0; e < 4; ++e) first[0][i][e] *= p.scale * LN2;
            }
            if (work.first >= work.rows) continue;
            if (partial) {
                int heads = p.batch * Stream<KEYS>::heads(p), all = KEYS ? p.keys : p.rows;
                float* to = partial + work.at.partial(heads, all, HEAD);
                if constexpr (FIRST) store_partial<HEAD>(to, first, mine, work.rows);
                if constexpr (SECOND)
                    store_partial<HEAD>(to + static_cast<long long>(p.parts) * heads * all * HEAD,
                                        second, mine, work.rows);
                continue;
            }
            auto store_all = [&](const float (&x)[WIDTH][4], T* to, const Strides& by, int width) {
                bool whole = (width | by.batch | by.head | by.row) % 8 == 0;
                T* row0 = to + by.at(b, work.at.head, KEYS ? span.key0 : span.row0);
                store_results<T>(x, mine, work.rows, width, whole,
                                 [&](int r) { return row0 + r * by.row; });
            };
            if constexpr (FIRST) store_all(first[0], to1, KEYS ? g.dk : g.dq, p.depth);
            if constexpr (SECOND) store_all(second[0], to2, g.dv, p.width);
        }
    };
    if constexpr (divided(HEAD, KEYS)) {
        if (warpgroup == 0) compute(Is<true>(), Is<false>());
        else compute(Is<false>(), Is<true>());
    } else {
        compute(Is<true>(), Is<KEYS>());
    }
}
