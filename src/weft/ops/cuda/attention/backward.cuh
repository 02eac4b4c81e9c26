// Gradients of attention for f16 and bf16 on tensor cores. Both kernels compute the weights again from the logarithms of
// their sums, in the structure of FlashAttention-2 (Dao 2023): one streams keys past queries and has the gradient of the
// queries, the other streams queries past keys and has the gradients of keys and values. Nothing is added atomically.
//
// With weights W = exp2(S - lse), dW = dO V' and delta = rowsum(dO * O):
//   dV = W' dO,   dS = W * (dW - delta),   dQ = scale dS K,   dK = scale dS' Q
#pragma once
#include "softmax.cuh"

struct Gradients {
    Strides dout, dq, dk, dv;
};

// The logarithm of a row's sum to base 2; for rows without keys, one that makes weights 0.
__device__ inline float log_of_sum(float lse) { return lse == NONE ? INFINITY : lse * LOG2E; }

// Of scores: weights, W, and of their gradients: gradients of scores. `log` and `delta` are those of the element's query.
__device__ inline void derive(float& s, float& dw, float scale, float log, float delta) {
    s = exp2_fast(fmaf(s, scale, -log));
    dw = s * (dw - delta);
}

template <class T, int HEAD, int BM, int BN, int WARPS, int MASK, bool WIDE>
__device__ void query_gradient(const T* q, const T* k, const T* v, const void* mask, const T* o, const T* dout,
                               const float* lse, const float* dlse, float* deltas, T* dq, const int* starts_q,
                               const int* starts_k, const Problem& p, const Gradients& g) {
    constexpr int THREADS = WARPS * 32, PITCH = pitch(HEAD), M = BM / WARPS / 16, N = BN / 8, TILE = BN * PITCH;
    extern __shared__ __align__(16) unsigned char memory[];
    T *qs = reinterpret_cast<T*>(memory), *ds = qs + BM * PITCH, *ks = ds + BM * PITCH, *vs = ks + 2 * TILE;

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
    int end = (seen + BN - 1) / BN, whole = MASK == FREE ? all / BN : 0;
    auto fetch_tile = [&](int j) {
        fetch<BN, HEAD, THREADS, WIDE>(ks + j % 2 * TILE, j * BN, span.keys, p.depth, k0, p.k.row);
        fetch<BN, HEAD, THREADS, WIDE>(vs + j % 2 * TILE, j * BN, span.keys, p.width, v0, p.v.row);
    };
    fetch<BM, HEAD, THREADS, WIDE>(qs, first, rows, p.depth, row_of(q, p.q));
    fetch<BM, HEAD, THREADS, WIDE>(ds, first, rows, p.width, row_of(dout, g.dout));
    if (end > 0) fetch_tile(0);
    commit();
    wait<0>();
    __syncthreads();

    // delta and the logarithms of this lane's rows. The four lanes of a row read its chunks in turn.
    constexpr int V = WIDE ? 8 : 1;
    int mine = first + warp * M * 16;
    float log[M][2], delta[M][2];
#pragma unroll
    for (int i = 0; i < 2 * M; ++i) {
        int r = mine + i * 8 + lane / 4;
        float sum = 0;
        log[i / 2][i % 2] = INFINITY;
        if (r < rows) {
            const T *a = row_of(o, p.o)(r), *b = ds + (r - first) * PITCH;
            for (int c = lane % 4 * V; c < p.width; c += 4 * V) {
                Vector<T, V> x = load<V>(a + c), y = load<V>(b + c);
#pragma unroll
                for (int e = 0; e < V; ++e) sum += to<float>(x[e]) * to<float>(y[e]);
            }
            log[i / 2][i % 2] = log_of_sum(*row_of(lse, p.lse)(r));
        }
        sum = quad_sum(sum);
        if (r < rows) {
            if (dlse) sum -= *row_of(dlse, p.lse)(r);
            if (lane % 4 == 0) *row_of(deltas, p.lse)(r) = sum;
        }
        delta[i / 2][i % 2] = sum;
    }

    unsigned a = address(qs) + left_place(PITCH) + 2 * warp * M * 16 * PITCH, d = a + 2 * BM * PITCH;
    unsigned b = address(ks) + right_place(PITCH), c = b + 2 * 2 * TILE, e = address(ks) + left_place(PITCH);
    Rows<T, M, MASK> view(p, span, mask, at.batch, at.head, mine, rows);
    float scale = MASK == FREE ? p.scale : 1, result[M][HEAD / 8][4] = {};
    auto step = [&](auto guarded, int j) {
        unsigned stage = j % 2 * TILE * 2;
        wait<0>();
        __syncthreads();
        if (j + 1 < end) fetch_tile(j + 1);
        commit();
        if (mine >= rows) return;
        float s[M][N][4] = {}, dw[M][N][4] = {};
        product_nt<T, M, N, HEAD / 16>(s, a, PITCH, b + stage, PITCH);
        if constexpr (decltype(guarded)::value) view.hide(s, j * BN, p.scale);
        product_nt<T, M, N, HEAD / 16>(dw, d, PITCH, c + stage, PITCH);
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < N; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) derive(s[m][n][i], dw[m][n][i], scale, log[m][i / 2], delta[m][i / 2]);
        product_nn<T, M, HEAD / 8, BN / 16>(result, dw, e + stage, PITCH);
    };
    int j = 0;
    if constexpr (MASK == FREE) {
#pragma unroll 1
        for (; j < whole; ++j) step(Is<false>(), j);
    }
#pragma unroll 1
    for (; j < end; ++j) step(Is<true>(), j);
    wait<0>();
    __syncthreads();
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < HEAD / 8; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) result[m][n][i] *= p.scale * LN2;
    store_rows<WIDE>(qs + warp * M * 16 * PITCH, result, mine, rows, p.depth, row_of(dq, g.dq));
}

// Scores and their gradients are transposed here: a warp has 16 M keys, and columns are queries. The queries of all heads
// that share the keys come one after another, so that their gradients are summed in registers. KEYS and VALUES say which
// gradients are computed: large heads have registers for one of both.
template <class T, int HEAD, int BM, int BN, int WARPS, int MASK, bool WIDE, bool KEYS, bool VALUES>
__device__ void key_gradients(const T* q, const T* k, const T* v, const void* mask, const T* dout, const float* lse,
                              const float* deltas, T* dk, T* dv, const int* starts_q, const int* starts_k, const Problem& p,
                              const Gradients& g) {
    constexpr int THREADS = WARPS * 32, PITCH = pitch(HEAD), M = BN / WARPS / 16, N = BM / 8, TILE = BM * PITCH;
    extern __shared__ __align__(16) unsigned char memory[];
    T *ks = reinterpret_cast<T*>(memory), *vs = ks + BN * PITCH, *qs = vs + BN * PITCH, *ds = qs + 2 * TILE;
    float* sums = reinterpret_cast<float*>(ds + 2 * TILE);  // of two stages: logarithms, then deltas
    static_assert(BM <= THREADS, "a thread copies one of each");

    int tiles = (p.keys + BN - 1) / BN, heads = p.heads / p.group;
    Place at(p, tiles, heads);
    Span span(p, starts_q, starts_k, at.batch);
    // The first keys have the most queries under a causal mask.
    int first = (tiles - 1 - at.tile) * BN, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (first >= span.keys) return;
    auto row_of = [&](auto* base, const Strides& s, int head, int start) {
        return [=](int r) { return base + s.at(at.batch, head, start + r); };
    };

    // Queries before tile `begin` see none of these keys; from tile `whole` on, all queries see all of them.
    int count = (span.rows + BM - 1) / BM, begin = 0, whole = 0;
    if (p.causal) {
        begin = min(count, max(0, first - span.diagonal) / BM);
        whole = min(count, max(0, first + BN - 1 - span.diagonal + BM - 1) / BM);
    }
    if (MASK != FREE || first + BN > span.keys) whole = count;

    // The tile that is copied next, and the rows of its head.
    int next = begin, left = (count - begin) * p.group;
    int head0 = at.head * p.group;
    const T *q0 = q + p.q.at(at.batch, head0, span.row0), *d0 = dout + g.dout.at(at.batch, head0, span.row0);
    long long sums0 = p.lse.at(at.batch, head0, span.row0);
    auto fetch_tile = [&](int stage) {
        if (left == 0) return;
        fetch<BM, HEAD, THREADS, WIDE>(qs + stage * TILE, next * BM, span.rows, p.depth, q0, p.q.row);
        fetch<BM, HEAD, THREADS, WIDE>(ds + stage * TILE, next * BM, span.rows, p.width, d0, g.dout.row);
        if (threadIdx.x < BM) {
            // Rows that are not there get zeros: their queries and gradients are zeros as well.
            int r = next * BM + threadIdx.x;
            float* to = sums + stage * 2 * BM + threadIdx.x;
            copy_float_async(to, lse + sums0 + r, r < span.rows);
            copy_float_async(to + BM, deltas + sums0 + r, r < span.rows);
        }
        --left;
        if (++next == count) next = begin, q0 += p.q.head, d0 += g.dout.head, sums0 += p.lse.head;
    };
    fetch<BN, HEAD, THREADS, WIDE>(ks, first, span.keys, p.depth, row_of(k, p.k, at.head, span.key0));
    fetch<BN, HEAD, THREADS, WIDE>(vs, first, span.keys, p.width, row_of(v, p.v, at.head, span.key0));
    fetch_tile(0);
    commit();

    int mine = first + warp * M * 16;
    unsigned a = address(ks) + left_place(PITCH) + 2 * warp * M * 16 * PITCH, c = a + 2 * BN * PITCH;
    unsigned right = right_place(PITCH), turned = left_place(PITCH);
    float scale = MASK == FREE ? p.scale : 1;
    float of_keys[M][KEYS ? HEAD / 8 : 1][4] = {}, of_values[M][VALUES ? HEAD / 8 : 1][4] = {};
    int stage = 0;
    auto step = [&](auto guarded, int head, int tile) {
        unsigned queries = address(qs + stage * TILE), gradients = address(ds + stage * TILE);
        const float* of = sums + stage * 2 * BM + lane % 4 * 2;
        wait<0>();
        __syncthreads();
        stage = 1 - stage;
        fetch_tile(stage);
        commit();
        if (mine >= span.keys) return;
        float s[M][N][4] = {}, dw[M][N][4] = {};
        product_nt<T, M, N, HEAD / 16>(s, a, PITCH, queries + right, PITCH);
        int start = tile * BM + lane % 4 * 2;
        if constexpr (decltype(guarded)::value) {
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
        if constexpr (KEYS) product_nt<T, M, N, HEAD / 16>(dw, c, PITCH, gradients + right, PITCH);
#pragma unroll
        for (int n = 0; n < N; ++n) {
            float2 log = *reinterpret_cast<const float2*>(of + n * 8), delta = *reinterpret_cast<const float2*>(of + BM + n * 8);
            // In tiles that no mask cuts, every query sees keys.
            log.x = decltype(guarded)::value ? log_of_sum(log.x) : log.x * LOG2E;
            log.y = decltype(guarded)::value ? log_of_sum(log.y) : log.y * LOG2E;
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    derive(s[m][n][2 * half], dw[m][n][2 * half], scale, log.x, delta.x);
                    derive(s[m][n][2 * half + 1], dw[m][n][2 * half + 1], scale, log.y, delta.y);
                }
        }
        if constexpr (VALUES) product_nn<T, M, HEAD / 8, BM / 16>(of_values, s, gradients + turned, PITCH);
        if constexpr (KEYS) product_nn<T, M, HEAD / 8, BM / 16>(of_keys, dw, queries + turned, PITCH);
    };
#pragma unroll 1
    for (int head = head0; head < head0 + p.group; ++head) {
        int tile = begin;  // tiles that the mask cuts, then the others
#pragma unroll 1
        for (; tile < whole; ++tile) step(Is<true>(), head, tile);
        if constexpr (MASK == FREE) {
#pragma unroll 1
            for (; tile < count; ++tile) step(Is<false>(), head, tile);
        }
    }
    wait<0>();
    __syncthreads();
    T* own = ks + warp * M * 16 * PITCH;
    if constexpr (KEYS) {
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < HEAD / 8; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) of_keys[m][n][i] *= p.scale * LN2;
        store_rows<WIDE>(own, of_keys, mine, span.keys, p.depth, row_of(dk, g.dk, at.head, span.key0));
    }
    if constexpr (VALUES)
        store_rows<WIDE>(own, of_values, mine, span.keys, p.width, row_of(dv, g.dv, at.head, span.key0));
}
