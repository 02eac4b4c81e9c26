// Attention in single precision, without tensor cores: blocks of 16 x 16 threads, whose rows of 16
// threads are halves of warps.
#pragma once
#include <weft/early_launch.cuh>
#include "dropout.cuh"
#include "split.cuh"

// Rows of floats; the padding puts 8 rows into different banks. Floats are copied by 16 bytes, or
// one by one if `single`: rows that are no whole, aligned vectors, see pad.cu. `arrived` waits.
template <int ROWS, int HEAD, class At>
__device__ void fetch_floats(float* shared, int first, int rows, int depth, bool single, At at) {
    constexpr bool COPIED = sizeof(*at(0)) == 4;
    auto fetch_by = [&](auto vector) {
        constexpr int V = decltype(vector)::value, ACROSS = HEAD / V;
#pragma unroll(COPIED ? 4 : 1)
        for (int i = threadIdx.x; i < ROWS * ACROSS; i += 256) {
            int r = i / ACROSS, c = i % ACROSS * V;
            bool inside = first + r < rows && c < depth;
            float* to_row = shared + r * (HEAD + 4) + c;
            auto* from = at(inside ? first + r : 0) + (inside ? c : 0);
            if constexpr (!COPIED) *to_row = inside ? to<float>(*from) : 0;
            else if constexpr (V == 1) copy_async<4>(to_row, from, inside);
            else copy_async<16>(shared_address(to_row), from, inside);
        }
    };
    if constexpr (!COPIED) fetch_by(Count<1>());
    else if (single) fetch_by(Count<1>());
    else fetch_by(Count<4>());
}
__device__ inline void arrived() {
    commit_copies();
    wait_copies<0>();
    __syncthreads();
}

// s[i][j] += the product of row `down + 16 i` of a and row `across + 16 j` of b.
template <int HEAD, int DEEP, int BROAD>
__device__ void multiply_rows(float (&s)[DEEP][BROAD], const float* a, const float* b) {
    int across = threadIdx.x % 16, down = threadIdx.x / 16;
#pragma unroll 4
    for (int c = 0; c < HEAD; c += 4) {
        Vector<float, 4> left[DEEP], right[BROAD];
#pragma unroll
        for (int i = 0; i < DEEP; ++i) left[i] = load<4>(a + (down + 16 * i) * (HEAD + 4) + c);
#pragma unroll
        for (int j = 0; j < BROAD; ++j) right[j] = load<4>(b + (across + 16 * j) * (HEAD + 4) + c);
#pragma unroll
        for (int i = 0; i < DEEP; ++i)
#pragma unroll
            for (int j = 0; j < BROAD; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) s[i][j] += left[i][e] * right[j][e];
    }
}

// The columns of a thread in rows of HEAD: vectors that are 64 or 32 apart.
template <int HEAD>
struct Columns {
    static constexpr int OWN = HEAD / 16, V = OWN % 4 == 0 ? 4 : 2;
    static __device__ int column(int c) { return c / V * 16 * V + threadIdx.x % 16 * V + c % V; }
};

// sums[i] += weights[down + 16 i][n] * row n of b, for n below COUNT; rows of weights have 4 more
// elements.
template <int HEAD, int COUNT, int DEEP>
__device__ void add_rows(float (&sums)[DEEP][HEAD / 16], const float* weights, const float* b) {
    constexpr int V = Columns<HEAD>::V;
#pragma unroll 1
    for (int n = 0; n < COUNT; n += 4) {
        Vector<float, 4> weight[DEEP];
#pragma unroll
        for (int i = 0; i < DEEP; ++i)
            weight[i] = load<4>(weights + (threadIdx.x / 16 + 16 * i) * (COUNT + 4) + n);
#pragma unroll
        for (int m = 0; m < 4; ++m)
#pragma unroll
            for (int c = 0; c < HEAD / 16 / V; ++c) {
                Vector<float, V> x =
                    load<V>(b + (n + m) * (HEAD + 4) + Columns<HEAD>::column(c * V));
#pragma unroll
                for (int i = 0; i < DEEP; ++i)
#pragma unroll
                    for (int e = 0; e < V; ++e) sums[i][c * V + e] += weight[i][m] * x[e];
            }
    }
}

// A block holds QUERIES queries and streams tiles of KEYS keys and values. A thread has a row of
// each 16.
template <class T, int HEAD, int MASK, bool DROP = false, bool SPLIT = false, int QUERIES = 64,
          int KEYS = 32>
__device__ void attend_floats(const T* q, const T* k, const T* v, const void* mask, T* o,
                              float* lse, const int* starts_q, const int* starts_k,
                              const Problem& p, const Random& random = {}, float* partial = nullptr,
                              int* counters = nullptr) {
    constexpr int PITCH = HEAD + 4, OWN = HEAD / 16, DEEP = QUERIES / 16, BROAD = KEYS / 16;
    extern __shared__ __align__(16) unsigned char memory[];
    float *qs = reinterpret_cast<float*>(memory), *ks = qs + QUERIES * PITCH,
          *vs = ks + KEYS * PITCH;
    float* weights = vs + KEYS * PITCH;  // [QUERIES][KEYS + 4]

    Place at(p, (p.rows * p.pack + QUERIES - 1) / QUERIES, p.heads / p.pack);
    start_next_kernel();
    wait_for_kernels();
    Span span(p, starts_q, starts_k, at.batch);
    int rows = span.rows * p.pack, first = at.tile * QUERIES, head = at.head * p.pack;
    if (first >= rows) return;
    auto row_of = [&](auto* base, const Strides& s) {
        return [=, &p](int r) {
            return base + s.at(at.batch, head + r % p.pack, span.row0 + r / p.pack);
        };
    };
    const T* k0 = k + p.k.at(at.batch, head / p.group, span.key0);
    const T* v0 = v + p.v.at(at.batch, head / p.group, span.key0);
    int behind = (min(first + QUERIES, rows) - 1) / p.pack + span.diagonal + 1;
    int seen = max(0, min(span.keys, behind + p.right));
    int begin = min(seen, max(0, first / p.pack + span.diagonal - p.left) / KEYS * KEYS);
    if constexpr (SPLIT) {
        int each = ((seen - begin + KEYS - 1) / KEYS + p.parts - 1) / p.parts * KEYS;
        begin = min(seen, begin + at.part * each), seen = min(seen, begin + each);
    }

    int across = threadIdx.x % 16, down = threadIdx.x / 16;
    float scale = MASK == FREE ? p.scale : 1, most[DEEP], sum[DEEP] = {}, result[DEEP][OWN] = {};
    Row<T, MASK> row[DEEP];
    [[maybe_unused]] Drop drop(p, random, at.batch, head);
#pragma unroll
    for (int i = 0; i < DEEP; ++i) {
        row[i].set(p, span, mask, at.batch, head, min(first + down + 16 * i, rows - 1));
        most[i] = NONE;
    }
    fetch_floats<QUERIES, HEAD>(qs, first, rows, p.depth, p.single, row_of(q, p.q));
    for (int start = begin; start < seen; start += KEYS) {
        __syncthreads();
        fetch_floats<KEYS, HEAD>(ks, start, span.keys, p.depth, p.single,
                                 [&](int r) { return k0 + r * p.k.row; });
        fetch_floats<KEYS, HEAD>(vs, start, span.keys, p.width, p.single,
                                 [&](int r) { return v0 + r * p.v.row; });
        arrived();
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
            now = group_reduce<16>(now, Larger());
            float base = now == NONE ? 0 : now, factor = exp2f((most[i] - base) * scale);
            most[i] = now, sum[i] *= factor;
#pragma unroll
            for (int c = 0; c < OWN; ++c) result[i][c] *= factor;
#pragma unroll
            for (int j = 0; j < BROAD; ++j) {
                float weight = exp2f((s[i][j] - base) * scale);
                sum[i] += weight;
                if constexpr (DROP)
                    weight = drop.keeps(first + down + 16 * i, start + across + 16 * j)
                                 ? weight * drop.scale
                                 : 0;
                weights[(down + 16 * i) * (KEYS + 4) + across + 16 * j] = weight;
            }
        }
        __syncwarp();  // half a warp writes and reads its own rows of weights
        add_rows<HEAD, KEYS>(result, weights, vs);
    }
    auto write = [&](int r, int c, const Vector<float, 4>& x) {
        store_four(row_of(o, p.o)(first + r), c, p.width,
                   (p.width | p.o.batch | p.o.head | p.o.row) % 4 == 0, x);
    };
    auto log = [&](int r, float x) {
        if (lse) *row_of(lse, p.lse)(first + r) = LN2 * x;
    };
    [[maybe_unused]] auto part = Partial<HEAD, QUERIES, true>{partial}.of(
        static_cast<long long>(at.number) * p.parts + at.part);
#pragma unroll
    for (int i = 0; i < DEEP; ++i) {
        int r = down + 16 * i;
        float total = group_reduce<16>(sum[i], Plus()), factor = total == 0 ? 0 : 1 / total;
        float logarithm = total == 0 ? NONE : most[i] * scale + log2f(total);
        if (first + r >= rows) continue;
#pragma unroll
        for (int c = 0; c < OWN; ++c) {
            int column = Columns<HEAD>::column(c);
            if constexpr (SPLIT) part.write(part.row(r) + column, result[i][c] * factor);
            else if (column < p.width)
                row_of(o, p.o)(first + r)[column] = to<T>(result[i][c] * factor);
        }
        if (across == 0) {
            if constexpr (SPLIT) part.write(part.log(r), logarithm);
            else log(r, logarithm);
        }
    }
    if constexpr (SPLIT)
        finish_parts<HEAD, QUERIES, 256>(partial, counters, at.number, p.parts, rows - first, qs,
                                         write, log);
}
