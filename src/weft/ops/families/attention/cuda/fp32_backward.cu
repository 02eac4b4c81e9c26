// Gradients of attention in single precision, by the formulas of backward.cuh: tiles of SIDE
// queries and SIDE keys.
#include "stored_scores.cuh"
#include "fp32.cuh"

// Tiles in shared memory: rows of four tensors, weights and gradients of scores.
template <int HEAD, int SIDE>
struct Tiles {
    static constexpr int TILE = SIDE * (HEAD + 4);
    float *qs, *ds, *ks, *vs, *weights, *slopes;

    __device__ Tiles() {
        extern __shared__ __align__(16) unsigned char memory[];
        qs = reinterpret_cast<float*>(memory), ds = qs + TILE, ks = ds + TILE, vs = ks + TILE;
        weights = vs + TILE, slopes = weights + SIDE * (SIDE + 4);
    }
};

// Weights and gradients of scores of one tile, as [query][key], or as [key][query] if TRANSPOSED.
// STORE writes the gradients to `stored` as well, as [query][key].
template <int HEAD, int SIDE, bool TRANSPOSED, bool DROP, bool STORE = false, int MASK, int EACH>
__device__ void derive_tile(const Tiles<HEAD, SIDE>& x, const Row<float, MASK> (&row)[EACH],
                            const float (&log)[EACH], const float (&delta)[EACH], int first_row,
                            int first_key, const Problem& p, const Drop& drop,
                            float* stored = nullptr) {
    [[maybe_unused]] float dropped = 1;
    int across = threadIdx.x % 16, down = threadIdx.x / 16;
    float s[EACH][EACH] = {}, dw[EACH][EACH] = {};
    multiply_rows<HEAD>(s, x.qs, x.ks);
    multiply_rows<HEAD>(dw, x.ds, x.vs);
#pragma unroll
    for (int i = 0; i < EACH; ++i)
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            s[i][j] = row[i].masked(s[i][j], first_key + across + 16 * j, p.scale);
            if constexpr (DROP)
                dropped = drop.keeps(first_row + down + 16 * i, first_key + across + 16 * j)
                              ? drop.scale
                              : 0;
            dw[i][j] *= dropped;
            derive(s[i][j], dw[i][j], MASK == FREE ? p.scale : 1, log[i], delta[i]);
            int r = down + 16 * i, c = across + 16 * j,
                place = TRANSPOSED ? c * (SIDE + 4) + r : r * (SIDE + 4) + c;
            x.weights[place] = s[i][j] * dropped, x.slopes[place] = dw[i][j];
            if constexpr (STORE) stored[r * SIDE + c] = dw[i][j];
        }
}

// Rows of HEAD sums, one after another.
template <int HEAD>
__device__ auto row_at(float* base) {
    return [=](int r) { return base + r * static_cast<long long>(HEAD); };
}

template <int HEAD, int EACH, class At>
__device__ void store_floats(const float (&x)[EACH][HEAD / 16], int first, int rows, int width,
                             float factor, At at) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        int r = first + threadIdx.x / 16 + 16 * i;
        if (r >= rows) continue;
#pragma unroll
        for (int c = 0; c < HEAD / 16; ++c) {
            int column = Columns<HEAD>::column(c);
            if (column < width) at(r)[column] = x[i][c] * factor;
        }
    }
}

template <int HEAD, int SIDE, int MASK, bool DROP>
__global__ void __launch_bounds__(256)
    queries(const float* q, const float* k, const float* v, const void* mask, const float* o,
            const float* dout, const float* lse, const float* dlse, float* deltas, float* dq,
            float* partial, const int* starts_q, const int* starts_k, const Problem p,
            const Gradients g, const long long* state, long long seed,
            long long offset EXPRESSION_PARAMETERS) {
    TAKE_EXPRESSION(mask);
    constexpr int EACH = SIDE / 16;
    Tiles<HEAD, SIDE> x;

    Place at(p, (p.rows + SIDE - 1) / SIDE, p.heads);
    Span span(p, starts_q, starts_k, at.batch);
    int rows = span.rows, first = at.tile * SIDE, across = threadIdx.x % 16,
        down = threadIdx.x / 16;
    if (first >= rows) return;
    auto row_of = [&](auto* base, const Strides& s) {
        return [=](int r) { return base + s.at(at.batch, at.head, span.row0 + r); };
    };
    const float* k0 = k + p.k.at(at.batch, at.head / p.group, span.key0);
    const float* v0 = v + p.v.at(at.batch, at.head / p.group, span.key0);
    fetch_floats<SIDE, HEAD>(x.qs, first, rows, p.depth, p.single, row_of(q, p.q));
    fetch_floats<SIDE, HEAD>(x.ds, first, rows, p.width, p.single, row_of(dout, g.dout));
    float log[EACH], delta[EACH], result[EACH][HEAD / 16] = {};
    Row<float, MASK> row[EACH];
    arrived();
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        int r = first + down + 16 * i;
        row[i].set(p, span, mask, at.batch, at.head, min(r, rows - 1));
        const float* of_row = x.ds + (r - first) * (HEAD + 4);
        float sum = row_delta<float, HEAD, 16>(row_of(o, p.o)(r), of_row, r < rows ? p.width : 0);
        if (r < rows && dlse) sum -= *row_of(dlse, p.lse)(r);
        if (r < rows && across == 0 && at.part == 0) *row_of(deltas, p.lse)(r) = sum;
        log[i] = r < rows ? log_of_sum(*row_of(lse, p.lse)(r)) : INFINITY, delta[i] = sum;
    }
    int seen = span.keys;
    if (p.causal) seen = max(0, min(seen, min(first + SIDE, rows) + span.diagonal));
    int begin, end;
    at.share(p, (seen + SIDE - 1) / SIDE, begin, end);
    Drop drop(p, {state, seed, offset}, at.batch, at.head);
    for (int start = begin * SIDE; start < end * SIDE; start += SIDE) {
        __syncthreads();
        fetch_floats<SIDE, HEAD>(x.ks, start, span.keys, p.depth, p.single,
                                 [&](int r) { return k0 + r * p.k.row; });
        fetch_floats<SIDE, HEAD>(x.vs, start, span.keys, p.width, p.single,
                                 [&](int r) { return v0 + r * p.v.row; });
        arrived();
        derive_tile<HEAD, SIDE, false, DROP>(x, row, log, delta, first, start, p, drop);
        __syncwarp();  // half a warp writes and reads its own rows
        add_rows<HEAD, SIDE>(result, x.slopes, x.ks);
    }
    if (partial) {
        auto to = row_at<HEAD>(partial + at.partial(p.batch * p.heads, p.rows, HEAD));
        store_floats<HEAD>(result, first, rows, HEAD, p.scale * LN2, to);
        return;
    }
    store_floats<HEAD>(result, first, rows, p.depth, p.scale * LN2, row_of(dq, g.dq));
}

// STAGES 2: the next tile of queries is copied while this one is used.
template <int HEAD, int SIDE, int STAGES, int MASK, bool STORE, bool DROP>
__global__ void __launch_bounds__(256, HEAD <= 64 ? 2 : 1)
    keys(const float* q, const float* k, const float* v, const void* mask, const float* dout,
         const float* lse, const float* deltas, float* dk, float* dv, float* stored, float* partial,
         const int* starts_q, const int* starts_k, const Problem p, const Gradients g,
         const long long* state, long long seed, long long offset EXPRESSION_PARAMETERS) {
    TAKE_EXPRESSION(mask);
    constexpr int EACH = SIDE / 16;
    Tiles<HEAD, SIDE> x;

    int tiles = (p.keys + SIDE - 1) / SIDE;
    Place at(p, tiles, p.heads / p.group, g.first, g.count);
    Span span(p, starts_q, starts_k, at.batch);
    int first = (tiles - 1 - at.tile) * SIDE, down = threadIdx.x / 16;
    if (first >= span.keys) return;
    auto row_of = [&](auto* base, const Strides& s, int head, int start) {
        return [=](int r) { return base + s.at(at.batch, head, start + r); };
    };
    fetch_floats<SIDE, HEAD>(x.ks, first, span.keys, p.depth, p.single,
                             row_of(k, p.k, at.head, span.key0));
    fetch_floats<SIDE, HEAD>(x.vs, first, span.keys, p.width, p.single,
                             row_of(v, p.v, at.head, span.key0));
    float of_keys[EACH][HEAD / 16] = {}, of_values[EACH][HEAD / 16] = {};
    int count = (span.rows + SIDE - 1) / SIDE,
        hidden = p.causal ? min(count, max(0, first - span.diagonal) / SIDE) : 0;
    int from, to, each = count - hidden;  // tiles of queries
    at.share(p, each * p.group, from, to);
    float* more = x.slopes + SIDE * (SIDE + 4);  // of the second stage
    float *next_qs = STAGES == 2 ? more : x.qs, *next_ds = STAGES == 2 ? more + x.TILE : x.ds;
    auto fetch_tile = [&](int t) {
        if (t >= to) return;
        int head = at.head * p.group + t / each, start = (hidden + t % each) * SIDE;
        fetch_floats<SIDE, HEAD>(next_qs, start, span.rows, p.depth, p.single,
                                 row_of(q, p.q, head, span.row0));
        fetch_floats<SIDE, HEAD>(next_ds, start, span.rows, p.width, p.single,
                                 row_of(dout, g.dout, head, span.row0));
    };
    auto swap = [](float*& a, float*& b) {
        float* c = a;
        a = b, b = c;
    };
    if constexpr (STAGES == 2) fetch_tile(from);
    for (int t = from; t < to; ++t) {
        int head = at.head * p.group + t / each, start = (hidden + t % each) * SIDE;
        if constexpr (STAGES == 1) {
            __syncthreads();
            fetch_tile(t);
        }
        float log[EACH], delta[EACH];
        Drop drop(p, {state, seed, offset}, at.batch, head);
        Row<float, MASK> row[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            int r = start + down + 16 * i;
            row[i].set(p, span, mask, at.batch, head, min(r, span.rows - 1));
            log[i] = r < span.rows ? log_of_sum(*row_of(lse, p.lse, head, span.row0)(r)) : INFINITY;
            delta[i] = r < span.rows ? *row_of(deltas, p.lse, head, span.row0)(r) : 0;
        }
        arrived();
        if constexpr (STAGES == 2) {
            swap(x.qs, next_qs), swap(x.ds, next_ds);
            fetch_tile(t + 1);
            commit_copies();
        }
        int index = at.index * p.group + t / each, place = hidden + t % each;
        float* to_tile =
            STORE ? stored + (g.row(index, first / SIDE) + place) * SIDE * SIDE : nullptr;
        derive_tile<HEAD, SIDE, true, DROP, STORE>(x, row, log, delta, start, first, p, drop,
                                                   to_tile);
        __syncthreads();
        add_rows<HEAD, SIDE>(of_values, x.weights, x.ds);
        add_rows<HEAD, SIDE>(of_keys, x.slopes, x.qs);
    }
    wait_copies<0>();
    if (partial) {
        float* to_keys = partial + at.partial(g.count, p.keys, HEAD);
        float* to_values = to_keys + static_cast<long long>(p.parts) * g.count * p.keys * HEAD;
        store_floats<HEAD>(of_keys, first, span.keys, HEAD, p.scale * LN2, row_at<HEAD>(to_keys));
        store_floats<HEAD>(of_values, first, span.keys, HEAD, 1, row_at<HEAD>(to_values));
        return;
    }
    store_floats<HEAD>(of_keys, first, span.keys, p.depth, p.scale * LN2,
                       row_of(dk, g.dk, at.head, span.key0));
    store_floats<HEAD>(of_values, first, span.keys, p.width, 1,
                       row_of(dv, g.dv, at.head, span.key0));
}

// The gradient of the queries from stored gradients of scores.
template <int HEAD, int SIDE>
__global__ void __launch_bounds__(256)
    sums(const float* stored, const float* k, float* dq, float* partial, const int* starts_q,
         const int* starts_k, const Problem p, const Gradients g) {
    extern __shared__ __align__(16) unsigned char memory[];
    float *ks = reinterpret_cast<float*>(memory), *slopes = ks + SIDE * (HEAD + 4),
          result[SIDE / 16][HEAD / 16] = {};
    Place at(p, (p.rows + SIDE - 1) / SIDE, p.heads, g.first * p.group, g.count * p.group);
    Span span(p, starts_q, starts_k, at.batch);
    int first = at.tile * SIDE, seen = span.keys, begin, end;
    if (first >= span.rows) return;
    const float* k0 = k + p.k.at(at.batch, at.head / p.group, span.key0);
    if (p.causal) seen = max(0, min(seen, min(first + SIDE, span.rows) + span.diagonal));
    at.share(p, (seen + SIDE - 1) / SIDE, begin, end);
    for (int tile = begin; tile < end; ++tile) {
        const float* from = stored + (g.row(at.index, tile) + at.tile) * SIDE * SIDE;
        __syncthreads();
        fetch_floats<SIDE, HEAD>(ks, tile * SIDE, span.keys, p.depth, p.single,
                                 [&](int r) { return k0 + r * p.k.row; });
        fetch_floats<SIDE, SIDE>(slopes, 0, SIDE, SIDE, false,
                                 [&](int r) { return from + r * SIDE; });
        arrived();
        add_rows<HEAD, SIDE>(result, slopes, ks);
    }
    if (partial) {
        auto to = row_at<HEAD>(partial + at.partial(g.count * p.group, p.rows, HEAD));
        store_floats<HEAD>(result, first, span.rows, HEAD, p.scale * LN2, to);
        return;
    }
    auto row = [&](int r) { return dq + g.dq.at(at.batch, at.head, span.row0 + r); };
    store_floats<HEAD>(result, first, span.rows, p.depth, p.scale * LN2, row);
}

template <int HEAD>
__global__ void __launch_bounds__(256)
    deltas(const float* o, const float* dout, const float* dlse, float* to, const int* starts_q,
           const int* starts_k, const Problem p, const Gradients g) {
    row_deltas<float, HEAD>(o, dout, dlse, to, starts_q, starts_k, p, g);
}

// As score_gradients of scores.cuh.
template <int HEAD, int SIDE, int MASK, bool DROP>
__global__ void __launch_bounds__(256)
    scores(const float* q, const float* k, const float* v, const void* mask, const float* dout,
           const float* lse, const float* deltas, float* to, const Problem p, const Gradients g,
           const long long* state, long long seed, long long offset) {
    constexpr int EACH = SIDE / 16;
    Tiles<HEAD, SIDE> x;
    int across = (p.keys + SIDE - 1) / SIDE, down = (p.rows + SIDE - 1) / SIDE;
    int key0 = blockIdx.x % across * SIDE, first = blockIdx.x / across % down * SIDE;
    int head = blockIdx.x / across / down % p.heads, batch = blockIdx.x / across / down / p.heads;
    Span span(p, nullptr, nullptr, batch);
    auto row_of = [&](auto* base, const Strides& s, int head) {
        return [=](int r) { return base + s.at(batch, head, r); };
    };
    fetch_floats<SIDE, HEAD>(x.qs, first, p.rows, p.depth, p.single, row_of(q, p.q, head));
    fetch_floats<SIDE, HEAD>(x.ds, first, p.rows, p.width, p.single, row_of(dout, g.dout, head));
    fetch_floats<SIDE, HEAD>(x.ks, key0, p.keys, p.depth, p.single, row_of(k, p.k, head / p.group));
    fetch_floats<SIDE, HEAD>(x.vs, key0, p.keys, p.width, p.single, row_of(v, p.v, head / p.group));
    float log[EACH], delta[EACH];
    Row<float, MASK> row[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        int r = min(first + int(threadIdx.x) / 16 + 16 * i, p.rows - 1);
        row[i].set(p, span, mask, batch, head, r);
        log[i] = log_of_sum(*row_of(lse, p.lse, head)(r)),
        delta[i] = *row_of(deltas, p.lse, head)(r);
    }
    arrived();
    Drop drop(p, {state, seed, offset}, batch, head);
    derive_tile<HEAD, SIDE, false, DROP>(x, row, log, delta, first, key0, p, drop);
    __syncthreads();
    for (int i = threadIdx.x; i < SIDE * SIDE; i += 256) {
        int r = first + i / SIDE, key = key0 + i % SIDE;
        if (r < p.rows && key < p.keys)
            to[p.lse.at(batch, head, r) * p.keys + key] =
                x.slopes[i / SIDE * (SIDE + 4) + i % SIDE];
    }
}
