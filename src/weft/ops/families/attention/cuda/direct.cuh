// Attention with up to 16 queries on tensor cores: memory is the limit, and keys and values go
// straight to registers, as fragments of B. Warps have different keys, and meet at the end only.
//
// A lane reads vectors of 16 bytes. The order of a head's elements within a product is free as long
// as queries and keys agree: of 32 elements, lane t of four has the eight from 8 t on. Element e of
// the values is column e / EACH of product e % EACH, so that a lane has neighbours of a row.
#pragma once
#include <weft/early_launch.cuh>
#include <weft/problem.cuh>
#include "split.cuh"

// The queries of a warp: rows lane / 4 and lane / 4 + 8, as the A of two products for 32 elements.
template <class T, int HEAD>
struct DirectQueries {
    unsigned of[HEAD / 32][2][4];

    // `at` gives the address of a row; rows from `rows` on are zeros.
    template <class At>
    __device__ void read(int first, int rows, At at) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int r = first + half * 8 + lane_index() / 4;
            const unsigned* row = reinterpret_cast<const unsigned*>(at(min(r, rows - 1)));
#pragma unroll
            for (int c = 0; c < HEAD / 32; ++c) {
                Vector<unsigned, 4> words = load<4>(row + c * 16 + lane_index() % 4 * 4);
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    of[c][i / 2][i % 2 * 2 + half] = r < rows ? words[i] : 0;
            }
        }
    }
};

// The keys and values of a step of a warp; those from `left` on are zeros.
template <class T, int HEAD>
struct DirectKeys {
    static constexpr int KEYS = 2048 / HEAD;  // 4 KiB of keys
    Vector<unsigned, 4> of[KEYS / 8][HEAD / 32];

    __device__ void read(const T* from, long long stride, int left) {
#pragma unroll
        for (int n = 0; n < KEYS / 8; ++n) {
            int key = n * 8 + lane_index() / 4;
            auto* row = reinterpret_cast<const unsigned*>(from + key * stride);
#pragma unroll
            for (int c = 0; c < HEAD / 32; ++c)
                of[n][c] =
                    key < left ? load_once<4>(row + c * 16 + lane_index() % 4 * 4) : fill<4>(0u);
        }
    }
    // Adds the scores of 16 queries.
    __device__ void multiply(float (&s)[1][KEYS / 8][4], const DirectQueries<T, HEAD>& q) const {
#pragma unroll
        for (int c = 0; c < HEAD / 32; ++c)
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int n = 0; n < KEYS / 8; ++n) mma<T>(s[0][n], q.of[c][i], &of[n][c][2 * i]);
    }
};

template <class T, int HEAD>
struct DirectValues {
    static constexpr int KEYS = DirectKeys<T, HEAD>::KEYS, EACH = HEAD / 8;
    Vector<unsigned, 4> of[KEYS / 16][4][EACH / 8];

    __device__ void read(const T* from, long long stride, int left) {
#pragma unroll
        for (int k = 0; k < KEYS / 16; ++k)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                int key = k * 16 + lane_index() % 4 * 2 + i / 2 * 8 + i % 2;
                auto* row = reinterpret_cast<const unsigned*>(from + key * stride);
#pragma unroll
                for (int c = 0; c < EACH / 8; ++c)
                    of[k][i][c] = key < left
                                      ? load_once<4>(row + (lane_index() / 4 * EACH + c * 8) / 2)
                                      : fill<4>(0u);
            }
    }
    // Adds the products of weights and values.
    __device__ void multiply(float (&o)[1][EACH][4], const float (&s)[1][KEYS / 8][4]) const {
#pragma unroll
        for (int k = 0; k < KEYS / 16; ++k) {
            unsigned weights[4];
            c_to_a<T>(weights, s[0][2 * k], s[0][2 * k + 1]);
#pragma unroll
            for (int w = 0; w < EACH; ++w) {
                // The halves of two words: an element of two keys.
                unsigned b[2], halves = w % 2 ? 0x7632 : 0x5410;
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    b[i] = __byte_perm(of[k][2 * i][w / 8][w % 8 / 2],
                                       of[k][2 * i + 1][w / 8][w % 8 / 2], halves);
                mma<T>(o[0][w], weights, b);
            }
        }
    }
    // Writes results and the logarithms of their sums.
    __device__ static void write(Partial<HEAD, 16, false> to, const float (&o)[1][EACH][4],
                                 const float (&logs)[1][2], int rows) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int r = half * 8 + lane_index() / 4;
            if (r >= rows) continue;
            if (lane_index() % 4 == 0) to.write(to.log(r), logs[0][half]);
#pragma unroll
            for (int e = 0; e < 2 * EACH; e += 4) {
                Vector<float, 4> four;
#pragma unroll
                for (int i = 0; i < 4; ++i) four[i] = o[0][(e + i) % EACH][half * 2 + e / EACH];
                to.write_four(r, lane_index() % 4 * 2 * EACH + e, four);
            }
        }
    }
};

// PAGED: a page has whole steps.
template <class T, int HEAD, int WARPS, int MASK, int SPLIT, bool PAGED>
__device__ void attend_directly(const T* q, const T* k, const T* v, const void* mask, T* o,
                                float* lse, const int* starts_q, const int* starts_k,
                                float* partial, int* counters, const Problem& p,
                                const Pages& pages = {}) {
    constexpr int BM = 16, KEYS = DirectKeys<T, HEAD>::KEYS;
    extern __shared__ __align__(16) float floats[];
    Place at(p, (p.rows * p.pack + BM - 1) / BM, p.heads / p.pack);
    start_next_kernel();
    wait_for_kernels();
    Span span(p, starts_q, starts_k, at.batch);
    int rows = span.rows * p.pack, first = at.tile * BM, head = at.head * p.pack;
    if (first >= rows) return;
    auto row_of = [&](auto* base, const Strides& s) {
        return [=, &p](int r) {
            return base + s.at(at.batch, head + r % p.pack, span.row0 + r / p.pack);
        };
    };
    KeyTiles<BM, KEYS> steps(p, span, first, rows);
    if constexpr (SPLIT != WHOLE) steps.take(at.part, p.parts);
    int end = steps.end, whole = MASK == FREE ? steps.whole : 0;

    const T* k0 = k + p.k.at(PAGED ? 0 : at.batch, head / p.group, span.key0);
    const T* v0 = v + p.v.at(PAGED ? 0 : at.batch, head / p.group, span.key0);
    [[maybe_unused]] const int* table = pages.table + static_cast<long long>(at.batch) * pages.most;
    int j = steps.begin + warp_index();
    // The page of a step and its first key there, which are read a step before they are used.
    int page = 0, key = 0;
    auto find = [&](int step) {
        key = step * KEYS;
        if (PAGED && step < end) page = table[key / pages.size], key %= pages.size;
    };
    DirectKeys<T, HEAD> keys;
    DirectValues<T, HEAD> values;
    auto read = [&](auto& to, const T* from, const Strides& by, int step) {
        if (step < end)
            to.read(from + by.at(PAGED ? page : 0, 0, key), by.row, span.keys - step * KEYS);
    };
    find(j);
    read(keys, k0, p.k, j);
    read(values, v0, p.v, j);
    find(j + WARPS);
    DirectQueries<T, HEAD> queries;
    queries.read(first, rows, row_of(q, p.q));
    Rows<T, 1, MASK> view(p, span, mask, at.batch, head, first, rows);
    float scale = MASK == FREE ? p.scale : 1, result[1][HEAD / 8][4] = {};
    Online<1> online;
#pragma unroll 1
    for (; j < end; j += WARPS) {
        float s[1][KEYS / 8][4] = {};
        keys.multiply(s, queries);
        read(keys, k0, p.k, j + WARPS);
        if (j >= whole) view.hide(s, j * KEYS, p.scale);
        online.template weigh<true>(s, result, scale);
        values.multiply(result, s);
        read(values, v0, p.v, j + WARPS);
        find(j + 2 * WARPS);
    }
    online.finish(result, scale);

    int count = min(BM, rows - first);
    bool whole_vectors = (p.width | p.o.batch | p.o.head | p.o.row) % 4 == 0;
    Partial<HEAD, BM, false> shared{floats};
    values.write(shared.of(warp_index()), result, online.most, count);
    combine_warps<HEAD, BM, WARPS * 32, SPLIT, WARPS>(
        shared, count, partial, counters, at.number, at.part, p.parts,
        [&](int r, int c, const Vector<float, 4>& x) {
            store_four(row_of(o, p.o)(first + r), c, p.width, whole_vectors, x);
        },
        [&](int r, float x) {
            if (lse) *row_of(lse, p.lse)(first + r) = LN2 * x;
        });
}
