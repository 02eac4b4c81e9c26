// Attention in single precision, without tensor cores: a block of 16 x 16 threads holds 64 queries and streams tiles of 32
// keys and values. A thread has 4 rows, 16 apart; the 16 threads of its rows are half a warp.
#include "softmax.cuh"

enum { QUERIES = 64, KEYS = 32 };

__device__ inline float half_warp_max(float x) {
#pragma unroll
    for (int i = 8; i; i /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, i));
    return x;
}
__device__ inline float half_warp_sum(float x) {
#pragma unroll
    for (int i = 8; i; i /= 2) x += __shfl_xor_sync(~0u, x, i);
    return x;
}

// Rows of floats; the padding puts 8 rows into different banks.
template <int ROWS, int HEAD, class At>
__device__ void fetch_floats(float* shared, int first, int rows, int depth, At at) {
    for (int i = threadIdx.x; i < ROWS * HEAD; i += 256) {
        int r = i / HEAD, c = i % HEAD;
        shared[r * (HEAD + 4) + c] = first + r < rows && c < depth ? at(first + r)[c] : 0;
    }
}

__device__ inline float4 four(const float* shared) { return *reinterpret_cast<const float4*>(shared); }

template <int HEAD, int MASK>
__global__ void __launch_bounds__(256)
    attend(const float* q, const float* k, const float* v, const void* mask, float* o, float* lse, const int* starts_q,
           const int* starts_k, const Problem p) {
    constexpr int PITCH = HEAD + 4, OWN = HEAD / 16, DEEP = QUERIES / 16, BROAD = KEYS / 16;
    extern __shared__ __align__(16) unsigned char memory[];
    float *qs = reinterpret_cast<float*>(memory), *ks = qs + QUERIES * PITCH, *vs = ks + KEYS * PITCH;
    float* weights = vs + KEYS * PITCH;  // [QUERIES][KEYS + 4]

    Place at(p, (p.rows * p.pack + QUERIES - 1) / QUERIES, p.heads / p.pack);
    Span span(p, starts_q, starts_k, at.batch);
    int rows = span.rows * p.pack, first = at.tile * QUERIES, head = at.head * p.pack;
    if (first >= rows) return;
    auto row_of = [&](auto* base, const Strides& s) {
        return [=, &p](int r) { return base + s.at(at.batch, head + r % p.pack, span.row0 + r / p.pack); };
    };
    const float* k0 = k + p.k.at(at.batch, head / p.group, span.key0);
    const float* v0 = v + p.v.at(at.batch, head / p.group, span.key0);
    int seen = span.keys;
    if (p.causal) seen = min(seen, (min(first + QUERIES, rows) - 1) / p.pack + span.diagonal + 1);

    int across = threadIdx.x % 16, down = threadIdx.x / 16;
    float scale = MASK == FREE ? p.scale : 1, most[DEEP], sum[DEEP] = {}, result[DEEP][OWN] = {};
    Row<float, MASK> row[DEEP];
#pragma unroll
    for (int i = 0; i < DEEP; ++i) {
        row[i].set(p, span, mask, at.batch, head, min(first + down + 16 * i, rows - 1));
        most[i] = NONE;
    }
    fetch_floats<QUERIES, HEAD>(qs, first, rows, p.depth, row_of(q, p.q));
    for (int start = 0; start < seen; start += KEYS) {
        __syncthreads();
        fetch_floats<KEYS, HEAD>(ks, start, span.keys, p.depth, [&](int r) { return k0 + r * p.k.row; });
        fetch_floats<KEYS, HEAD>(vs, start, span.keys, p.width, [&](int r) { return v0 + r * p.v.row; });
        __syncthreads();
        float s[DEEP][BROAD] = {};
#pragma unroll 4
        for (int c = 0; c < HEAD; c += 4) {
            float4 a[DEEP], b[BROAD];
#pragma unroll
            for (int i = 0; i < DEEP; ++i) a[i] = four(qs + (down + 16 * i) * PITCH + c);
#pragma unroll
            for (int j = 0; j < BROAD; ++j) b[j] = four(ks + (across + 16 * j) * PITCH + c);
#pragma unroll
            for (int i = 0; i < DEEP; ++i)
#pragma unroll
                for (int j = 0; j < BROAD; ++j)
                    s[i][j] += a[i].x * b[j].x, s[i][j] += a[i].y * b[j].y, s[i][j] += a[i].z * b[j].z,
                        s[i][j] += a[i].w * b[j].w;
        }
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
        // Columns of a thread: OWN / 4 vectors that are 64 apart, or single columns that are 16 apart.
        constexpr int V = OWN % 4 == 0 ? 4 : 1;
#pragma unroll 4
        for (int key = 0; key < KEYS; ++key) {
            float weight[DEEP];
#pragma unroll
            for (int i = 0; i < DEEP; ++i) weight[i] = weights[(down + 16 * i) * (KEYS + 4) + key];
#pragma unroll
            for (int c = 0; c < OWN / V; ++c) {
                Vector<float, V> b = load<V>(vs + key * PITCH + c * 16 * V + across * V);
#pragma unroll
                for (int i = 0; i < DEEP; ++i)
#pragma unroll
                    for (int e = 0; e < V; ++e) result[i][c * V + e] += weight[i] * b[e];
            }
        }
    }
    constexpr int V = OWN % 4 == 0 ? 4 : 1;
#pragma unroll
    for (int i = 0; i < DEEP; ++i) {
        int r = first + down + 16 * i;
        float total = half_warp_sum(sum[i]), factor = total == 0 ? 0 : 1 / total;
        if (r >= rows) continue;
        float* to = row_of(o, p.o)(r);
#pragma unroll
        for (int c = 0; c < OWN; ++c) {
            int column = c / V * 16 * V + across * V + c % V;
            if (column < p.width) to[column] = result[i][c] * factor;
        }
        if (lse && across == 0) *row_of(lse, p.lse)(r) = total == 0 ? NONE : LN2 * (most[i] * scale + log2f(total));
    }
}
