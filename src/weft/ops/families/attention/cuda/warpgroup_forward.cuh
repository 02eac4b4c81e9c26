// Attention for f16 and bf16 on Hopper, in the structure of FlashAttention-3 (Shah et al. 2024): a
// warpgroup copies tiles of keys and values into rings in shared memory, and WARPGROUPS others have
// 64 queries each. While the tensor cores multiply the weights of one tile by its values and the
// queries by the next keys, a warpgroup computes the softmax of another tile.
#pragma once
#include <weft/early_launch.cuh>
#include <weft/wgmma.cuh>
#include "results.cuh"
#include "softmax.cuh"
#include "tickets.cuh"

// Copies ROWS rows from row `first` on by 128 threads; columns from `depth` on and rows from `rows`
// on become zeros. Four threads copy a row, 64 bytes at a time, so that the addresses of a row are
// one sum apart.
template <int ROWS, int HEAD, class T>
__device__ void fetch_slabs(unsigned shared, const T* base, long long stride, int first, int rows,
                            int depth, int thread) {
    int r = thread / 4, q = thread % 4;
    const T* from = base + (first + r) * stride + q * 8;
    unsigned to = shared + swizzle<128>(r, q);
#pragma unroll
    for (int i = 0; i < ROWS; i += 32, from += 32 * stride) {
        if (ROWS % 32 && i + r >= ROWS) break;
        bool inside = first + i + r < rows;
#pragma unroll
        for (int c = 0; c < HEAD; c += 32) {
            if (HEAD % 32 && c + q * 8 >= HEAD) break;
            unsigned place = (to + c / 64 * slab_bytes(ROWS) + i * 128) ^ (c % 64 ? 64 : 0);
            copy_async<16>(place, from + c,
                           inside && c + q * 8 < depth);  // an address outside is not read
        }
    }
}

// A block's tile of queries, and how many tiles of keys its rows see.
struct QueryTile {
    Place at;
    Span span;
    int first, end;

    __device__ QueryTile(const Problem& p, const int* starts_q, const int* starts_k, int id,
                         int queries, int keys)
        : at(p, (p.rows + queries - 1) / queries, p.heads, 0, p.batch * p.heads, id),
          span(p, starts_q, starts_k, at.batch) {
        first = at.tile * queries, end = seen(p, first, queries, keys);
    }
    // Tiles with a key that one of `count` rows from `row` on sees.
    __device__ int seen(const Problem& p, int row, int count, int keys) const {
        if (row >= span.rows) return 0;
        int last = p.causal ? max(0, min(span.keys, min(row + count, span.rows) + span.diagonal))
                            : span.keys;
        return (last + keys - 1) / keys;
    }
    // Tiles of which all rows from `row` on see all keys.
    __device__ int whole(const Problem& p, int row, int keys) const {
        return (p.causal ? max(0, min(span.keys, row + span.diagonal + 1)) : span.keys) / keys;
    }
    __device__ static int count(const Problem& p, int queries) {
        return (p.rows + queries - 1) / queries * p.heads * p.batch;
    }
};

// BUFFERS: tiles of queries in shared memory; with two, the next one is copied while this one is
// used.
template <class T, int HEAD, int BN, int WARPGROUPS, int BUFFERS, int MASK, bool ORDERED>
__device__ void attend_warpgroups(const T* q, const T* k, const T* v, const void* mask, T* o,
                                  float* lse, const int* starts_q, const int* starts_k,
                                  int* counters, const Problem& p) {
    constexpr int BM = 64 * WARPGROUPS, N = BN / 8, WIDTH = HEAD / 8, STAGES = 2;
    constexpr int QUERIES = tile_bytes(BM, HEAD), TILE = tile_bytes(BN, HEAD),
                  PIECE = HEAD < 128 ? HEAD : 128;
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ Barrier q_full[BUFFERS], q_empty[BUFFERS], k_full[STAGES], k_empty[STAGES],
        v_full[STAGES], v_empty[STAGES];
    __shared__ Tickets tickets;
    unsigned qs = slab_aligned(shared_address(memory)), ks = qs + BUFFERS * QUERIES,
             vs = ks + STAGES * TILE;
    if (threadIdx.x == 0) {
        tickets.start(WARPGROUPS * 4 + 4);
        for (int i = 0; i < BUFFERS; ++i) q_full[i].init(128), q_empty[i].init(WARPGROUPS * 4);
        for (int i = 0; i < STAGES; ++i) {
            k_full[i].init(128), k_empty[i].init(WARPGROUPS * 4);
            v_full[i].init(128), v_empty[i].init(WARPGROUPS * 4);
        }
    }
    start_next_kernel();
    wait_for_kernels();
    __syncthreads();
    int count = QueryTile::count(p, BM), warpgroup = warpgroup_index();

    if (warpgroup == WARPGROUPS) {
        fewer_registers<WARPGROUPS == 3 ? 32 : 40>();
        int thread = threadIdx.x % 128, n = 0, round = 0;
#pragma unroll 1
        for (int id; (id = tickets.take(round)) < count; ++round) {
            int next = thread == 0 ? tickets.draw(counters) : 0;
            QueryTile work(p, starts_q, starts_k, id, BM, BN);
            int b = work.at.batch, h = work.at.head;
            int buffer = round % BUFFERS;
            q_empty[buffer].wait(round / BUFFERS % 2 ^ 1);
            fetch_slabs<BM, HEAD>(qs + buffer * QUERIES, q + p.q.at(b, h, work.span.row0), p.q.row,
                                  work.first, work.span.rows, p.depth, thread);
            q_full[buffer].arrive_after_copies();
            const T* k0 = k + p.k.at(b, h / p.group, work.span.key0);
            const T* v0 = v + p.v.at(b, h / p.group, work.span.key0);
#pragma unroll 1
            for (int j = 0; j < work.end; ++j, ++n) {
                int stage = n % STAGES, parity = n / STAGES % 2 ^ 1;
                k_empty[stage].wait(parity);
                fetch_slabs<BN, HEAD>(ks + stage * TILE, k0, p.k.row, j * BN, work.span.keys,
                                      p.depth, thread);
                k_full[stage].arrive_after_copies();
                v_empty[stage].wait(parity);
                fetch_slabs<BN, HEAD>(vs + stage * TILE, v0, p.v.row, j * BN, work.span.keys,
                                      p.width, thread);
                v_full[stage].arrive_after_copies();
            }
            if (thread == 0) tickets.put(round + 1, next);
        }
        if (thread == 0) tickets.end(counters);
        wait_copies<0>();
        return;
    }
    more_registers<WARPGROUPS == 3 ? 160 : 232>();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    unsigned long long lefts = wgmma_rows(qs + warpgroup * slab_bytes(64)), keys = wgmma_rows(ks),
                       values = wgmma_columns<BN>(vs);
    bool vectors = (p.width | p.o.batch | p.o.head | p.o.row) % 8 == 0;
    float scale = MASK == FREE ? p.scale : 1;
    int n = 0, round = 0;
    auto release = [&](Barrier& b) {
        if (lane == 0) b.arrive();
    };
    // The warpgroups take turns to issue products: the softmax of one overlaps with the products of
    // another.
    auto my_turn = [&] {
        if constexpr (ORDERED) barrier_sync<256>(1 + warpgroup);
    };
    auto next_turn = [&] {
        if constexpr (ORDERED) barrier_arrive<256>(1 + (warpgroup + 1) % WARPGROUPS);
    };
    if (ORDERED && warpgroup == WARPGROUPS - 1) next_turn();
#pragma unroll 1
    for (int id; (id = tickets.take(round)) < count; ++round) {
        QueryTile work(p, starts_q, starts_k, id, BM, BN);
        int b = work.at.batch, h = work.at.head, rows = work.span.rows,
            mine = work.first + warpgroup * 64 + warp * 16;
        Rows<T, 1, MASK> view(p, work.span, mask, b, h, mine, rows);
        float result[1][WIDTH][4] = {}, s[1][N][4];
        unsigned weights[BN / 16][4];
        Online<1> online;
        int buffer = round % BUFFERS;
        unsigned long long left = lefts + buffer * QUERIES / 16;
        q_full[buffer].wait(round / BUFFERS % 2);

        auto scores = [&](int stage) {
            unsigned long long right = keys + stage * TILE / 16;
#pragma unroll
            for (int i = 0; i < HEAD / 16; ++i) {
                unsigned long long column = i % 4 * 2;
                wgmma<T>(s[0], left + (i / 4 * slab_bytes(BM) / 16 + column),
                         right + (i / 4 * slab_bytes(BN) / 16 + column), i > 0);
            }
            wgmma_commit();
        };
        auto add = [&](int stage) {
            unsigned long long right = values + stage * TILE / 16;
#pragma unroll
            for (int i = 0; i < BN / 16; ++i)
#pragma unroll
                for (int c = 0; c < HEAD; c += 128) {
                    unsigned long long at =
                        right + (i * slab_bytes(16) + c / 64 * slab_bytes(BN)) / 16;
                    if (c + 128 <= HEAD || HEAD < 128)
                        wgmma_left<T>(reinterpret_cast<float (&)[PIECE / 8][4]>(result[0][c / 8]),
                                      weights[i], at);
                    else
                        wgmma_left<T>(reinterpret_cast<float (&)[8][4]>(result[0][c / 8]),
                                      weights[i], at);
                }
            wgmma_commit();
        };
        auto pack = [&] {
#pragma unroll
            for (int i = 0; i < BN / 16; ++i) c_to_a<T>(weights[i], s[0][2 * i], s[0][2 * i + 1]);
        };
        float factor[1][2];
        // The first step has no weights to multiply yet.
        auto step = [&](auto guarded, auto first, int j) {
            constexpr bool GUARDED = decltype(guarded)::value, FIRST = decltype(first)::value;
            int stage = n % STAGES, before = (n - 1) % STAGES;
            k_full[stage].wait(n / STAGES % 2);
            if constexpr (!FIRST) v_full[before].wait((n - 1) / STAGES % 2);
            publish_tiles();
            my_turn();
            wgmma_begin();
            scores(stage);
            if constexpr (!FIRST) add(before);
            next_turn();
            wgmma_wait<FIRST ? 0 : 1>();
            wgmma_results(s[0]);
            release(k_empty[stage]);
            if constexpr (GUARDED) view.hide(s, j * BN, p.scale);
            bool grown = online.template raise<GUARDED>(s, factor, scale);
            online.template exponentials<GUARDED>(s, scale);
            if constexpr (!FIRST) {
                wgmma_wait<0>();
                wgmma_results(result[0]);
                release(v_empty[before]);
                if (grown) online.rescale(result, factor);
            }
            pack();
            ++n;
        };
        int row0 = work.first + warpgroup * 64, end = work.seen(p, row0, 64, BN), j = 0;
        int whole = MASK == FREE ? min(end, work.whole(p, row0, BN)) : 0;
        if (MASK == FREE && j < whole) step(Is<false>(), Is<true>(), j++);
        else if (j < end) step(Is<true>(), Is<true>(), j++);
        if constexpr (MASK == FREE) {
#pragma unroll 1
            for (; j < whole; ++j) step(Is<false>(), Is<false>(), j);
        }
#pragma unroll 1
        for (; j < end; ++j) step(Is<true>(), Is<false>(), j);
        release(q_empty[buffer]);
        if (end > 0) {
            int stage = (n - 1) % STAGES;
            v_full[stage].wait((n - 1) / STAGES % 2);
            publish_tiles();
            wgmma_begin();
            add(stage);
            wgmma_wait<0>();
            wgmma_results(result[0]);
            release(v_empty[stage]);
        }
        // Tiles that only rows of the next warpgroups see.
#pragma unroll 1
        for (; j < work.end; ++j, ++n) {
            k_full[n % STAGES].wait(n / STAGES % 2);
            my_turn();
            next_turn();
            release(k_empty[n % STAGES]);
            v_full[n % STAGES].wait(n / STAGES % 2);
            release(v_empty[n % STAGES]);
        }
        online.finish(result, scale);
        if (work.first >= rows) continue;
        store_results<T>(result[0], mine, rows, p.width, vectors,
                         [&](int r) { return o + p.o.at(b, h, work.span.row0 + r); });
        if (lse && lane % 4 == 0) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int r = mine + i * 8 + lane / 4;
                if (r < rows) lse[p.lse.at(b, h, work.span.row0 + r)] = LN2 * online.most[0][i];
            }
        }
    }
}
