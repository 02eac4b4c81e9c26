// Attention for f16 and bf16 on tensor cores, in the structure of FlashAttention-2 (Dao 2023): a
// block holds BM queries, and streams tiles of BN keys and values through shared memory. Scores,
// weights and results stay in registers, in float.
#pragma once
#include <weft/early_launch.cuh>
#include "dropout.cuh"
#include "quantised_tile.cuh"
#include "split.cuh"

// STAGES above 1: the next tiles of keys and values are copied while these are used. STAGES 1:
// values are copied during the product of queries and keys, and the next keys during the product of
// weights and values. ACROSS: warps that have the same queries, and their share of the keys of each
// tile. With few queries, this gives all warps work. C is the type of keys and values: T, or signed
// char for a QuantisedCache, whose next tiles wait in registers; STAGES is then 1.
template <class T, int HEAD, int BM, int BN, int WARPS, int STAGES, int MASK, int SPLIT,
          bool DROP = false, int ACROSS = 1, bool PAGED = false, class C = T>
__device__ void attend_tile(const T* q, const C* k, const C* v, const void* mask, T* o, float* lse,
                            const int* starts_q, const int* starts_k, float* partial, int* counters,
                            const Problem& p, const Random& random = {}, const Pages& pages = {},
                            const QuantisedCache& cache = {}) {
    constexpr bool QUANTISED = sizeof(C) == 1;
    static_assert(!QUANTISED || PAGED && STAGES == 1, "pages, and tiles that wait in registers");
    constexpr int THREADS = WARPS * 32, PITCH = pitch(HEAD), DOWN = WARPS / ACROSS,
                  M = BM / DOWN / 16, WIDTH = HEAD / 8;
    constexpr int TILE = BN * PITCH, KEYS = BN / ACROSS, N = KEYS / 8;
    extern __shared__ __align__(16) unsigned char memory[];
    T *qs = reinterpret_cast<T*>(memory), *ks = qs + BM * PITCH, *vs = ks + STAGES * TILE;

    Place at(p, (p.rows * p.pack + BM - 1) / BM, p.heads / p.pack);
    start_next_kernel();
    wait_for_kernels();
    Span span(p, starts_q, starts_k, at.batch);
    int rows = span.rows * p.pack, first = at.tile * BM, head = at.head * p.pack,
        warp = threadIdx.x / 32;
    if (first >= rows) return;
    auto row_of = [&](auto* base, const Strides& s) {
        return [=, &p](int r) {
            return base + s.at(at.batch, head + r % p.pack, span.row0 + r / p.pack);
        };
    };
    const C* k0 = k + p.k.at(PAGED ? 0 : at.batch, head / p.group, span.key0);
    const C* v0 = v + p.v.at(PAGED ? 0 : at.batch, head / p.group, span.key0);
    [[maybe_unused]] const int* table = pages.table + static_cast<long long>(at.batch) * pages.most;
    auto fetch_rows = [&](T* to, int j, int depth, const C* from, const Strides& by) {
        if constexpr (QUANTISED) return;
        else if constexpr (PAGED)
            fetch<BN, HEAD, THREADS>(to, j * BN, span.keys, depth, [&](int r) {
                int page = r / pages.size;
                return from + by.at(table[page], 0, r - page * pages.size);
            });
        else fetch<BN, HEAD, THREADS>(to, j * BN, span.keys, depth, from, by.row);
    };

    KeyTiles<BM, BN> tiles(p, span, first, rows);
    if constexpr (SPLIT != WHOLE) tiles.take(at.part, p.parts);
    int begin = tiles.begin, end = tiles.end,
        whole = max(begin, min(MASK == FREE ? tiles.whole : 0, end));

    auto fetch_keys = [&](int j) { fetch_rows(ks + j % STAGES * TILE, j, p.depth, k0, p.k); };
    auto fetch_values = [&](int j) { fetch_rows(vs + j % STAGES * TILE, j, p.width, v0, p.v); };
    // Of a quantised cache: the next tile, a scale of it for each thread, and places of two tiles.
    [[maybe_unused]] QuantisedTile<BN, HEAD, THREADS> next_keys, next_values;
    [[maybe_unused]] float next_scale = 0, *scales = reinterpret_cast<float*>(vs + TILE);
    [[maybe_unused]] int2* places = reinterpret_cast<int2*>(scales + 2 * BN);
    [[maybe_unused]] auto find_next = [&](int j) {
        find_places<BN>(places + j % 2 * BN, pages, table, j * BN, span.keys);
    };
    [[maybe_unused]] auto load_next = [&](int j) {
        if constexpr (QUANTISED) {
            static_assert(2 * BN <= THREADS, "a scale for a thread");
            const int2* at = places + j % 2 * BN;
            next_keys.load(at, k0, p.k, p.depth);
            next_values.load(at, v0, p.v, p.width);
            next_scale = load_scale<BN>(cache, at, head / p.group);
        }
    };
    fetch<BM, HEAD, THREADS>(qs, first, rows, p.depth, row_of(q, p.q));
    if constexpr (STAGES == 1) {
        if (begin < end) fetch_keys(begin);
        commit_copies();
        if constexpr (QUANTISED) {
            find_next(begin), find_next(begin + 1);
            __syncthreads();
            load_next(begin);
        }
    }
#pragma unroll
    for (int i = 0; i < STAGES - 1; ++i) {
        if (begin + i < end) fetch_keys(begin + i), fetch_values(begin + i);
        commit_copies();
    }

    // The first row and the first key of this warp in its tiles; a warp without rows helps to copy.
    int row0 = warp % DOWN * M * 16, key0 = warp / DOWN * KEYS, mine = first + row0;
    unsigned a = shared_address(qs) + left_place(PITCH) + 2 * row0 * PITCH;
    unsigned b = shared_address(ks) + right_place(PITCH) + 2 * key0 * PITCH,
             c = shared_address(vs) + left_place(PITCH) + 2 * key0 * PITCH;
    Rows<T, M, MASK> view(p, span, mask, at.batch, head, mine, rows);
    float scale = MASK == FREE ? p.scale : 1, result[M][WIDTH][4] = {};
    Online<M> online;
    [[maybe_unused]] Drop drop(p, random, at.batch, head);
    auto step = [&](auto guarded, int j) {
        constexpr bool GUARDED = decltype(guarded)::value;
        unsigned stage = j % STAGES * TILE * 2;
        [[maybe_unused]] int later = j + STAGES - 1;
        wait_copies<STAGES == 1 ? 0 : STAGES - 2>();
        __syncthreads();
        if constexpr (STAGES == 1) fetch_values(j);
        else if (later < end) fetch_keys(later), fetch_values(later);
        commit_copies();
        if constexpr (QUANTISED) {
            next_keys.store(ks), next_values.store(vs);
            if (threadIdx.x < 2 * BN) scales[threadIdx.x] = next_scale;
            if (j + 1 < end) load_next(j + 1);
            __syncthreads();
            find_next(j + 2);
        }
        float s[M][N][4] = {};
        if (mine < rows) product_nt<T, M, N, HEAD / 16>(s, a, PITCH, b + stage, PITCH);
        if constexpr (STAGES == 1 && !QUANTISED) {
            wait_copies<0>();
            __syncthreads();
            if (j + 1 < end) fetch_keys(j + 1);
            commit_copies();
        }
        if (mine < rows) {
            if constexpr (QUANTISED) scale_keys(s, scales + key0, 1);
            if constexpr (GUARDED) view.hide(s, j * BN + key0, p.scale);
            online.template weigh<GUARDED>(s, result, scale);
            if constexpr (DROP) drop.rows(s, mine, j * BN + key0);
            if constexpr (QUANTISED) scale_keys(s, scales + BN + key0, VALUE_STEPS);
            product_nn<T, M, WIDTH, KEYS / 16>(result, s, c + stage, PITCH);
        }
    };
    int j = begin;
    if constexpr (MASK == FREE) {
#pragma unroll 1
        for (; j < whole; ++j) step(Is<false>(), j);
    }
#pragma unroll 1
    for (; j < end; ++j) step(Is<true>(), j);
    wait_copies<0>();
    __syncthreads();

    if constexpr (QUANTISED) divide(result, VALUE_STEPS);
    online.finish(result, scale);
    if constexpr (SPLIT == WHOLE && ACROSS == 1) {
        store_rows(qs + row0 * PITCH, result, mine, rows, p.width, row_of(o, p.o));
        if (lse && threadIdx.x % 4 == 0) {
#pragma unroll
            for (int i = 0; i < M * 2; ++i) {
                int r = mine + i * 8 + threadIdx.x % 32 / 4;
                if (r < rows) *row_of(lse, p.lse)(r) = LN2 * online.most[i / 2][i % 2];
            }
        }
    } else {
        float* floats = reinterpret_cast<float*>(memory);
        int count = min(BM, rows - first);
        bool whole_vectors = (p.width | p.o.batch | p.o.head | p.o.row) % 4 == 0;
        auto write = [&](int r, int c, const Vector<float, 4>& x) {
            store_four(row_of(o, p.o)(first + r), c, p.width, whole_vectors, x);
        };
        auto log = [&](int r, float x) {
            if (lse) *row_of(lse, p.lse)(first + r) = LN2 * x;
        };
        if constexpr (ACROSS > 1) {
            Partial<HEAD, BM, false> shared{floats};
            if (mine < rows) shared.of(warp / DOWN).write_rows(result, online.most, row0);
            combine_warps<HEAD, BM, THREADS, SPLIT, ACROSS>(
                shared, count, partial, counters, at.number, at.part, p.parts, write, log);
        } else {
            auto part = Partial<HEAD, BM, true>{partial}.of(
                static_cast<long long>(at.number) * p.parts + at.part);
            if (mine < rows) part.write_rows(result, online.most, row0);
            finish_parts<HEAD, BM, THREADS>(partial, counters, at.number, p.parts, count, floats,
                                            write, log);
        }
    }
}
