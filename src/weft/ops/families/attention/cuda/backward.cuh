// Gradients of attention for f16 and bf16 on tensor cores. The weights are computed again from the
// logarithms of their sums, in the structure of FlashAttention-2 (Dao 2023). Nothing is added
// atomically: one kernel streams queries past keys and has the gradients of keys and values. The
// gradient of the queries needs the gradients of the scores once more. They are either stored in
// memory by that kernel, and stored_scores.cuh multiplies them by the keys, or computed again by a
// kernel that streams keys past queries.
//
// Few blocks leave SMs idle: the queries, or the keys, that a block streams are then split among
// `parts` blocks, and join.cu adds up their sums of floats, which are at `partial`.
//
// With weights W = exp2(S - lse), dW = dO V' and delta = rowsum(dO * O):
//   dV = W' dO,   dS = W * (dW - delta),   dQ = scale dS K,   dK = scale dS' Q
#pragma once
#include "dropout.cuh"

// `count` heads of keys from `first` on, counted over the batch, have their gradients of scores in
// memory, as square tiles: of 16 queries and keys, or of SIDE in single precision. A head of
// queries has `tiles` of them: for the keys of a tile a row of `row_tiles`. `half`: row c has no
// place for its first c tiles, which a causal mask hides.
struct Gradients {
    Strides dout, dq, dk, dv;
    int first, count, row_tiles, half;
    long long tiles;

    // Before the first tile of row c.
    __device__ long long row(int index, int c) const {
        return index * tiles + static_cast<long long>(c) * row_tiles -
               (half ? c * (c + 1ll) / 2 : 0);
    }
};

// Elements of a tile of gradients of scores: four 8 x 8 matrices, each a row of queries after
// another.
constexpr int STORED = 256;

// The logarithm of a row's sum to base 2; for rows without keys, one that makes weights 0.
__device__ inline float log_of_sum(float lse) { return lse == NONE ? INFINITY : lse * LOG2E; }

// Lanes among which a row of dO * O is divided: a power of two. They read vectors of 8 elements of
// 16 bits, or floats.
template <class T>
__device__ constexpr int lanes_of(int head) {
    return sizeof(T) == 4 ? 16
           : head <= 16   ? 2
           : head <= 32   ? 4
           : head <= 64   ? 8
           : head <= 128  ? 16
                          : 32;
}

// rowsum(dO * O) of one row, by LANES neighbouring lanes, which all get it; rows that are not there
// have width 0. The order of the additions is that of lanes_of(HEAD) lanes, whatever LANES is: all
// kernels that need delta have the same bits.
template <class T, int HEAD, int LANES>
__device__ float row_delta(const T* o, const T* dout, int width) {
    constexpr int V = sizeof(T) == 2 ? 8 : 1, ALL = lanes_of<T>(HEAD),
                  EACH = ALL > LANES ? ALL / LANES : 1;
    constexpr int CHUNKS = (HEAD + LANES * V - 1) / (LANES * V);
    float sums[EACH] = {};
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        int c = (threadIdx.x % LANES + i * LANES) * V;
        if (c >= width) continue;
        Vector<T, V> x = load<V>(o + c), y = load<V>(dout + c);
#pragma unroll
        for (int e = 0; e < V; ++e) sums[i % EACH] += to<float>(x[e]) * to<float>(y[e]);
    }
    // Sums that are furthest apart are added first: those of one lane, then those of others.
#pragma unroll
    for (int n = EACH / 2; n > 0; n /= 2)
#pragma unroll
        for (int i = 0; i < n; ++i) sums[i] += sums[i + n];
    return group_reduce<LANES>(sums[0], Plus());
}

// Multiplies the sums of a warp.
template <int M, int N>
__device__ __forceinline__ void scale_all(float (&x)[M][N][4], float by) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) x[m][n][i] *= by;
}

// Of scores: weights, W, and of their gradients: gradients of scores. `log` and `delta` are those
// of the element's query.
__device__ inline void derive(float& s, float& dw, float scale, float log, float delta) {
    s = exp2_approx(fmaf(s, scale, -log));
    dw = s * (dw - delta);
}

template <class T, int HEAD, int BM, int BN, int WARPS, int MASK, bool DROP>
__device__ void query_gradient(const T* q, const T* k, const T* v, const void* mask, const T* o,
                               const T* dout, const float* lse, const float* dlse, float* deltas,
                               T* dq, float* partial, const int* starts_q, const int* starts_k,
                               const Problem& p, const Gradients& g, const Random& random) {
    constexpr int THREADS = WARPS * 32, PITCH = pitch(HEAD), M = BM / WARPS / 16, N = BN / 8,
                  TILE = BN * PITCH;
    extern __shared__ __align__(16) unsigned char memory[];
    T *qs = reinterpret_cast<T*>(memory), *ds = qs + BM * PITCH, *ks = ds + BM * PITCH,
      *vs = ks + 2 * TILE;

    Place at(p, (p.rows + BM - 1) / BM, p.heads);
    Span span(p, starts_q, starts_k, at.batch);
    int rows = span.rows, first = at.tile * BM, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (first >= rows) return;
    auto row_of = [&](auto* base, const Strides& s) {
        return [=](int r) { return base + s.at(at.batch, at.head, span.row0 + r); };
    };
    const T* k0 = k + p.k.at(at.batch, at.head / p.group, span.key0);
    const T* v0 = v + p.v.at(at.batch, at.head / p.group, span.key0);
    int seen = span.keys, all = span.keys;
    if (p.causal) {
        seen = max(0, min(seen, min(first + BM, rows) + span.diagonal));
        all = max(0, min(all, first + span.diagonal + 1));
    }
    int begin, end, whole = MASK == FREE ? all / BN : 0;
    at.share(p, (seen + BN - 1) / BN, begin, end);
    whole = min(whole, end);
    auto fetch_tile = [&](int j) {
        fetch<BN, HEAD, THREADS>(ks + j % 2 * TILE, j * BN, span.keys, p.depth, k0, p.k.row);
        fetch<BN, HEAD, THREADS>(vs + j % 2 * TILE, j * BN, span.keys, p.width, v0, p.v.row);
    };
    fetch<BM, HEAD, THREADS>(qs, first, rows, p.depth, row_of(q, p.q));
    fetch<BM, HEAD, THREADS>(ds, first, rows, p.width, row_of(dout, g.dout));
    if (begin < end) fetch_tile(begin);
    commit_copies();
    wait_copies<0>();
    __syncthreads();

    // delta and the logarithms of this lane's rows, each of which four lanes have.
    int mine = first + warp * M * 16;
    float log[M][2], delta[M][2];
#pragma unroll
    for (int i = 0; i < 2 * M; ++i) {
        int r = mine + i * 8 + lane / 4;
        bool inside = r < rows;
        float sum = row_delta<T, HEAD, 4>(row_of(o, p.o)(r), ds + (r - first) * PITCH,
                                          inside ? p.width : 0);
        log[i / 2][i % 2] = inside ? log_of_sum(*row_of(lse, p.lse)(r)) : INFINITY;
        if (inside) {
            if (dlse) sum -= *row_of(dlse, p.lse)(r);
            if (lane % 4 == 0 && at.part == 0) *row_of(deltas, p.lse)(r) = sum;
        }
        delta[i / 2][i % 2] = sum;
    }

    unsigned a = shared_address(qs) + left_place(PITCH) + 2 * warp * M * 16 * PITCH,
             d = a + 2 * BM * PITCH;
    unsigned b = shared_address(ks) + right_place(PITCH), c = b + 2 * 2 * TILE,
             e = shared_address(ks) + left_place(PITCH);
    Rows<T, M, MASK> view(p, span, mask, at.batch, at.head, mine, rows);
    [[maybe_unused]] Drop drop(p, random, at.batch, at.head);
    float scale = MASK == FREE ? p.scale : 1, result[M][HEAD / 8][4] = {};
    auto step = [&](auto guarded, int j) {
        unsigned stage = j % 2 * TILE * 2;
        wait_copies<0>();
        __syncthreads();
        if (j + 1 < end) fetch_tile(j + 1);
        commit_copies();
        if (mine >= rows) return;
        float s[M][N][4] = {}, dw[M][N][4] = {};
        product_nt<T, M, N, HEAD / 16>(s, a, PITCH, b + stage, PITCH);
        if constexpr (decltype(guarded)::value) view.hide(s, j * BN, p.scale);
        product_nt<T, M, N, HEAD / 16>(dw, d, PITCH, c + stage, PITCH);
        if constexpr (DROP) drop.rows(dw, mine, j * BN);
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < N; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    derive(s[m][n][i], dw[m][n][i], scale, log[m][i / 2], delta[m][i / 2]);
        product_nn<T, M, HEAD / 8, BN / 16>(result, dw, e + stage, PITCH);
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
    scale_all(result, p.scale * LN2);
    if (partial)
        store_partial(partial + at.partial(p.batch * p.heads, p.rows, HEAD), result, mine, rows);
    else store_rows(qs + warp * M * 16 * PITCH, result, mine, rows, p.depth, row_of(dq, g.dq));
}

// Scores and their gradients are transposed here: a warp has 16 M keys, and columns are queries.
// The queries of all heads that share the keys come one after another, so that their gradients are
// summed in registers. A warp has registers for the gradients of 16 keys and their values. PAIRED:
// two warps have the same keys, up to twice as many, so that an operand that ldmatrix reads serves
// twice as many products. One computes the weights and the gradient of the values, and passes the
// weights to the other one, which computes the gradient of the keys. STORE writes the gradients of
// scores to `stored`.
template <class T, int HEAD, int BM, int BN, int WARPS, int MASK, bool PAIRED, bool STORE,
          bool DROP>
struct KeyGradients {
    static constexpr int THREADS = WARPS * 32, PITCH = pitch(HEAD), TILE = BM * PITCH;
    static constexpr int M = BN / (PAIRED ? WARPS / 2 : WARPS) / 16, N = BM / 8;
    static_assert(BM <= THREADS, "a thread copies a logarithm and a delta");

    const Problem& p;
    const Gradients& g;
    const Random random;
    const void* mask;
    T *dk, *dv, *stored;
    float* partial;
    Place at;
    Span span;
    T *ks, *vs, *qs, *ds;
    float* sums;     // of two stages: logarithms, then deltas
    float4* weights;  // of each pair of warps
    int first, lane = threadIdx.x % 32, team, mine;
    int count, begin, whole;  // tiles of queries
    int from, to;             // this block's part of the tiles of all heads
    // The tile that is copied next, and the rows of its head.
    int next, left, head0;
    const T *q0, *d0;
    const float *lse, *deltas;
    long long sums0;

    __device__ __forceinline__ KeyGradients(const T* q, const T* k, const T* v, const void* mask,
                                            const T* dout, const float* lse, const float* deltas,
                                            T* dk, T* dv, T* stored, float* partial,
                                            const int* starts_q, const int* starts_k,
                                            const Problem& p, const Gradients& g,
                                            const Random& random)
        : p(p), g(g), random(random), mask(mask), dk(dk), dv(dv), stored(stored), partial(partial),
          at(p, (p.keys + BN - 1) / BN, p.heads / p.group, g.first, g.count),
          span(p, starts_q, starts_k, at.batch), lse(lse), deltas(deltas) {
        extern __shared__ __align__(16) unsigned char memory[];
        ks = reinterpret_cast<T*>(memory), vs = ks + BN * PITCH, qs = vs + BN * PITCH,
        ds = qs + 2 * TILE;
        sums = reinterpret_cast<float*>(ds + 2 * TILE);
        team = threadIdx.x / 32 / (PAIRED ? 2 : 1);
        weights = reinterpret_cast<float4*>(sums + 4 * BM) + team * M * N * 32 + lane;
        // The first keys have the most queries under a causal mask.
        first = ((p.keys + BN - 1) / BN - 1 - at.tile) * BN, mine = first + team * M * 16;
        if (first >= span.keys) return;

        // Queries before tile `begin` see none of these keys; from tile `whole` on, all queries see
        // all of them.
        count = (span.rows + BM - 1) / BM, begin = 0, whole = 0;
        if (p.causal) {
            begin = min(count, max(0, first - span.diagonal) / BM);
            whole = min(count, max(0, first + BN - 1 - span.diagonal + BM - 1) / BM);
        }
        if (MASK != FREE || first + BN > span.keys) whole = count;
        head0 = at.head * p.group;
        at.share(p, (count - begin) * p.group, from, to);
        int before = from / max(1, count - begin);  // heads
        next = begin + from - before * (count - begin), left = to - from;
        q0 = q + p.q.at(at.batch, head0 + before, span.row0),
        d0 = dout + g.dout.at(at.batch, head0 + before, span.row0);
        sums0 = p.lse.at(at.batch, head0 + before, span.row0);
        const T* k0 = k + p.k.at(at.batch, at.head, span.key0);
        const T* v0 = v + p.v.at(at.batch, at.head, span.key0);
        fetch<BN, HEAD, THREADS>(ks, first, span.keys, p.depth, k0, p.k.row);
        fetch<BN, HEAD, THREADS>(vs, first, span.keys, p.width, v0, p.v.row);
        fetch_tile(0);
        commit_copies();
    }

    __device__ __forceinline__ void fetch_tile(int stage) {
        if (left == 0) return;
        fetch<BM, HEAD, THREADS>(qs + stage * TILE, next * BM, span.rows, p.depth, q0, p.q.row);
        fetch<BM, HEAD, THREADS>(ds + stage * TILE, next * BM, span.rows, p.width, d0, g.dout.row);
        if (threadIdx.x < BM) {
            // Rows that are not there get zeros: their queries and gradients are zeros as well.
            int r = next * BM + threadIdx.x;
            float* to = sums + stage * 2 * BM + threadIdx.x;
            copy_async<4>(to, lse + sums0 + r, r < span.rows);
            copy_async<4>(to + BM, deltas + sums0 + r, r < span.rows);
        }
        --left;
        if (++next == count) next = begin, q0 += p.q.head, d0 += g.dout.head, sums0 += p.lse.head;
    }

    __device__ __forceinline__ void hide(float (&s)[M][N][4], int head, int tile) const {
        int start = tile * BM + lane % 4 * 2;
#pragma unroll
        for (int x = 0; x < 2 * N; ++x) {
            Row<T, MASK> row;
            row.set(p, span, mask, at.batch, head, min(start + x / 2 * 8 + x % 2, span.rows - 1));
#pragma unroll
            for (int y = 0; y < 2 * M; ++y) {
                float& value = s[y / 2][x / 2][y % 2 * 2 + x % 2];
                value = row.masked(value, mine + y * 8 + lane / 4, p.scale);
            }
        }
    }

    // Turns scores into weights; `of` are the logarithms of the tile's queries.
    template <bool GUARDED>
    __device__ __forceinline__ void weigh(float (&s)[M][N][4], const float* of) const {
        float scale = MASK == FREE ? p.scale : 1;
#pragma unroll
        for (int n = 0; n < N; ++n) {
            float2 log = *reinterpret_cast<const float2*>(of + n * 8);
            // In tiles that no mask cuts, every query sees keys.
            log.x = GUARDED ? log_of_sum(log.x) : log.x * LOG2E,
            log.y = GUARDED ? log_of_sum(log.y) : log.y * LOG2E;
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    s[m][n][i] = exp2_approx(fmaf(s[m][n][i], scale, -(i % 2 ? log.y : log.x)));
        }
    }

    // Turns gradients of weights into those of scores; `of` are the deltas of the tile's queries,
    // weight(m, n) are weights.
    template <class Weight>
    __device__ __forceinline__ void slope(float (&dw)[M][N][4], const float* of,
                                          Weight weight) const {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            float2 delta = *reinterpret_cast<const float2*>(of + n * 8);
#pragma unroll
            for (int m = 0; m < M; ++m) {
                float4 w = weight(m, n);
                float (&x)[4] = dw[m][n];
                x[0] = w.x * (x[0] - delta.x), x[1] = w.y * (x[1] - delta.y);
                x[2] = w.z * (x[2] - delta.x), x[3] = w.w * (x[3] - delta.y);
            }
        }
    }

    // Writes gradients of scores to memory. GUARDED: some tiles may be hidden by a causal mask, or
    // be past the last key, and have no place: the next head's first tiles are there.
    template <bool GUARDED>
    __device__ __forceinline__ void store_scores(const float (&dw)[M][N][4], int head,
                                                 int tile) const {
        int index = at.index * p.group + head - head0, row16 = tile * (BM / 16);
#pragma unroll
        for (int m = 0; m < M; ++m) {
            int key16 = mine / 16 + m;
            if (GUARDED && key16 * 16 >= span.keys) continue;
            unsigned* to =
                reinterpret_cast<unsigned*>(stored + (g.row(index, key16) + row16) * STORED) + lane;
#pragma unroll
            for (int n = 0; n < N / 2; ++n) {
                if (GUARDED && g.half && row16 + n < key16) continue;
                unsigned words[4];
                c_to_a<T>(words, dw[m][2 * n], dw[m][2 * n + 1]);
#pragma unroll
                for (int i = 0; i < 4; ++i) to[n * (STORED / 2) + i * 32] = words[i];
            }
        }
    }

    // Calls body(guarded, head, tile, stage) for each tile of queries that has arrived. All warps
    // of the block run this loop, so that they meet at the same barriers, whatever their bodies
    // compute.
    template <class Body>
    __device__ __forceinline__ void stream(Body body) {
        int stage = 0;
        auto step = [&](auto guarded, int head, int tile) {
            wait_copies<0>();
            __syncthreads();
            stage = 1 - stage;
            fetch_tile(stage);
            commit_copies();
            if (mine < span.keys) body(guarded, head, tile, 1 - stage);
        };
#pragma unroll 1
        for (int head = head0, start = begin; head < head0 + p.group;
             ++head, start -= count - begin) {
            // Tiles that the mask cuts, then the others.
            int tile = max(begin, start + from), end = min(count, start + to),
                cut = min(whole, end);
#pragma unroll 1
            for (; tile < cut; ++tile) step(Is<true>(), head, tile);
            if constexpr (MASK == FREE) {
#pragma unroll 1
                for (; tile < end; ++tile) step(Is<false>(), head, tile);
            }
        }
        wait_copies<0>();
        __syncthreads();
    }

    // Stores the gradient of this warp's keys, or of their values. `rows` is shared memory of this
    // warp alone.
    __device__ __forceinline__ void finish(float (&x)[M][HEAD / 8][4], bool keys, T* rows) const {
        if (keys) scale_all(x, p.scale * LN2);
        if (partial) {
            float* to_keys = partial + at.partial(g.count, p.keys, HEAD);
            float* to_values = to_keys + static_cast<long long>(p.parts) * g.count * p.keys * HEAD;
            store_partial(keys ? to_keys : to_values, x, mine, span.keys);
            return;
        }
        T *to_keys = dk + g.dk.at(at.batch, at.head, span.key0),
          *to_values = dv + g.dv.at(at.batch, at.head, span.key0);
        T* row0 = keys ? to_keys : to_values;
        long long step = keys ? g.dk.row : g.dv.row;
        store_rows(rows, x, mine, span.keys, keys ? p.depth : p.width,
                   [=](int r) { return row0 + r * step; });
    }

    // The work of a warp that has its keys for itself.
    __device__ __forceinline__ void run_alone() {
        unsigned a = shared_address(ks) + left_place(PITCH) + 2 * team * M * 16 * PITCH,
                 c = a + 2 * BN * PITCH;
        unsigned right = right_place(PITCH), left_at = left_place(PITCH);
        float of_keys[M][HEAD / 8][4] = {}, of_values[M][HEAD / 8][4] = {};
        stream([&](auto guarded, int head, int tile, int stage) {
            constexpr bool GUARDED = decltype(guarded)::value;
            unsigned queries = shared_address(qs + stage * TILE),
                     gradients = shared_address(ds + stage * TILE);
            const float* of = sums + stage * 2 * BM + lane % 4 * 2;
            float s[M][N][4] = {}, dw[M][N][4] = {};
            product_nt<T, M, N, HEAD / 16>(s, a, PITCH, queries + right, PITCH);
            if constexpr (GUARDED) hide(s, head, tile);
            [[maybe_unused]] unsigned bits[M][N / 2];
            [[maybe_unused]] Drop drop(p, random, at.batch, head);
            if constexpr (DROP) drop.template columns<M, N>(bits, tile * BM, mine);
            product_nt<T, M, N, HEAD / 16>(dw, c, PITCH, gradients + right, PITCH);
            if constexpr (DROP) drop.apply(dw, bits);
            weigh<GUARDED>(s, of);
            slope(dw, of + BM, [&](int m, int n) {
                return make_float4(s[m][n][0], s[m][n][1], s[m][n][2], s[m][n][3]);
            });
            if constexpr (STORE) store_scores<GUARDED>(dw, head, tile);
            if constexpr (DROP) drop.apply(s, bits);
            product_nn<T, M, HEAD / 8, BM / 16>(of_values, s, gradients + left_at, PITCH);
            product_nn<T, M, HEAD / 8, BM / 16>(of_keys, dw, queries + left_at, PITCH);
        });
        T* rows = ks + team * M * 16 * PITCH;  // not read any more
        finish(of_keys, true, rows);
        finish(of_values, false, rows);
    }

    // The work of a warp of a pair. Both multiply twice: the odd one has dW = V dO' and dK = dS' Q,
    // the other one S = K Q' and dV = W dO, with other operands at the same places of the code.
    __device__ __forceinline__ void run_paired() {
        bool keys = threadIdx.x / 32 % 2;
        unsigned left =
            shared_address(keys ? vs : ks) + left_place(PITCH) + 2 * team * M * 16 * PITCH;
        unsigned first = shared_address(keys ? ds : qs) + right_place(PITCH),
                 second = shared_address(keys ? qs : ds) + left_place(PITCH);
        float result[M][HEAD / 8][4] = {};
        stream([&](auto guarded, int head, int tile, int stage) {
            constexpr bool GUARDED = decltype(guarded)::value;
            const float* of = sums + stage * 2 * BM + lane % 4 * 2;
            float x[M][N][4] = {};
            product_nt<T, M, N, HEAD / 16>(x, left, PITCH, first + 2 * stage * TILE, PITCH);
            [[maybe_unused]] unsigned bits[M][N / 2];
            [[maybe_unused]] Drop drop(p, random, at.batch, head);
            if constexpr (DROP) drop.template columns<M, N>(bits, tile * BM, mine);
            if (!keys) {
                if constexpr (GUARDED) hide(x, head, tile);
                weigh<GUARDED>(x, of);
#pragma unroll
                for (int i = 0; i < M * N; ++i) {
                    const float (&w)[4] = x[i / N][i % N];
                    weights[i * 32] = {w[0], w[1], w[2], w[3]};
                }
            }
            if constexpr (DROP) drop.apply(x, bits);
            barrier_sync<64>(1 + team);
            if (keys) {
                slope(x, of + BM, [&](int m, int n) { return weights[(m * N + n) * 32]; });
                if constexpr (STORE) store_scores<GUARDED>(x, head, tile);
            }
            product_nn<T, M, HEAD / 8, BM / 16>(result, x, second + 2 * stage * TILE, PITCH);
        });
        finish(result, keys, (keys ? ks : vs) + team * M * 16 * PITCH);  // not read any more
    }

    __device__ __forceinline__ void run() {
        if (first >= span.keys) return;
        if constexpr (PAIRED) run_paired();
        else run_alone();
    }
};
