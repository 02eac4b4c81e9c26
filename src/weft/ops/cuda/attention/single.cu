// Attention in single precision, without tensor cores: a block holds 64 queries and streams tiles of 32 keys and values.
// A thread has 4 rows, 16 apart.
#include "single.cuh"

enum { QUERIES = 64, KEYS = 32 };

template <int HEAD, int MASK>
__global__ void __launch_bounds__(256)
    attend(const float* q, const float* k, const float* v, const void* mask, float* o, float* lse, const int* starts_q,
           const int* starts_k, const Problem p) {
    constexpr int PITCH = HEAD + 4, OWN = HEAD / 16, DEEP = QUERIES / 16, BROAD = KEYS / 16;
    extern __shared__ __align__(16) unsigned char memory[];
    float *qs = reinterpret_cast<float*>(memory), *ks = qs + QUERIES * PITCH, *vs = ks + KEYS * PITCH;
    float* weights = vs + KEYS * PITCH;  // [QUERIES][KEYS + 4]

    Place at(p, (p.rows + QUERIES - 1) / QUERIES, p.heads);
    Span span(p, starts_q, starts_k, at.batch);
    int rows = span.rows, first = at.tile * QUERIES;
    if (first >= rows) return;
    auto row_of = [&](auto* base, const Strides& s) {
        return [=](int r) { return base + s.at(at.batch, at.head, span.row0 + r); };
    };
    const float* k0 = k + p.k.at(at.batch, at.head / p.group, span.key0);
    const float* v0 = v + p.v.at(at.batch, at.head / p.group, span.key0);
    int seen = span.keys;
    if (p.causal) seen = min(seen, min(first + QUERIES, rows) + span.diagonal);

    int across = threadIdx.x % 16, down = threadIdx.x / 16;
    float scale = MASK == FREE ? p.scale : 1, most[DEEP], sum[DEEP] = {}, result[DEEP][OWN] = {};
    Row<float, MASK> row[DEEP];
#pragma unroll
    for (int i = 0; i < DEEP; ++i) {
        row[i].set(p, span, mask, at.batch, at.head, min(first + down + 16 * i, rows - 1));
        most[i] = NONE;
    }
    fetch_floats<QUERIES, HEAD>(qs, first, rows, p.depth, row_of(q, p.q));
    for (int start = 0; start < seen; start += KEYS) {
        __syncthreads();
        fetch_floats<KEYS, HEAD>(ks, start, span.keys, p.depth, [&](int r) { return k0 + r * p.k.row; });
        fetch_floats<KEYS, HEAD>(vs, start, span.keys, p.width, [&](int r) { return v0 + r * p.v.row; });
        __syncthreads();
        float s[DEEP][BROAD] = {};
        multiply_rows<HEAD>(s, qs, ks);
#pragma unroll
        for (int i = 0; i < DEEP; ++i) {
            float now = most[i];
#pragma unroll
            for (int j = 0; j < BROAD; ++j) {
                s[i][j] = row[i].masked(s[i][j], start + across + 16 * j, p.scale);
                now = fmaxf(now, s[i][j]);
            }
            now = half_warp_max(now);
            float base = now == NONE ? 0 : now, factor = exp2f((most[i] - base) * scale);
            most[i] = now, sum[i] *= factor;
#pragma unroll
            for (int c = 0; c < OWN; ++c) result[i][c] *= factor;
#pragma unroll
            for (int j = 0; j < BROAD; ++j) {
                float weight = exp2f((s[i][j] - base) * scale);
                sum[i] += weight;
                weights[(down + 16 * i) * (KEYS + 4) + across + 16 * j] = weight;
            }
        }
        __syncwarp();  // half a warp writes and reads its own rows of weights
        add_rows<HEAD, KEYS>(result, weights, KEYS + 4, 1, vs);
    }
#pragma unroll
    for (int i = 0; i < DEEP; ++i) {
        int r = first + down + 16 * i;
        float total = half_warp_sum(sum[i]), factor = total == 0 ? 0 : 1 / total;
        if (r >= rows) continue;
        float* to = row_of(o, p.o)(r);
#pragma unroll
        for (int c = 0; c < OWN; ++c)
            if (Columns<HEAD>::column(c) < p.width) to[Columns<HEAD>::column(c)] = result[i][c] * factor;
        if (lse && across == 0) *row_of(lse, p.lse)(r) = total == 0 ? NONE : LN2 * (most[i] * scale + log2f(total));
    }
}
