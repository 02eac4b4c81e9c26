// The gradient of the queries from stored gradients of scores: dQ = scale dS K, and delta =
// rowsum(dO * O) before it.
#pragma once
#include "backward.cuh"

template <class T, int HEAD>
__device__ void row_deltas(const T* o, const T* dout, const float* dlse, float* deltas,
                           const int* starts_q, const int* starts_k, const Problem& p,
                           const Gradients& g) {
    constexpr int LANES = lanes_of<T>(HEAD);
    long long n = blockIdx.x * static_cast<long long>(blockDim.x / LANES) + threadIdx.x / LANES;
    int row = n % p.rows, head = n / p.rows % p.heads, batch = n / p.rows / p.heads;
    bool inside = batch < p.batch;
    long long at = 0;
    if (inside) {
        Span span(p, starts_q, starts_k, batch);
        inside = row < span.rows;
        row += span.row0;
        at = p.lse.at(batch, head, row);
    }
    const T *a = o + p.o.at(batch, head, row), *b = dout + g.dout.at(batch, head, row);
    float sum = row_delta<T, HEAD, LANES>(a, b, inside ? p.width : 0);
    if (inside && threadIdx.x % LANES == 0) deltas[at] = dlse ? sum - dlse[at] : sum;
}

// A block has BM queries, and streams tiles of BN keys and of the gradients of their scores through
// STAGES stages.
template <class T, int HEAD, int BM, int BN, int WARPS, int STAGES>
__device__ void stored_query_gradient(const T* stored, const T* k, T* dq, float* partial,
                                      const int* starts_q, const int* starts_k, const Problem& p,
                                      const Gradients& g) {
    constexpr int THREADS = WARPS * 32, PITCH = pitch(HEAD), M = BM / WARPS / 16, TILE = BN * PITCH;
    constexpr int DOWN = BN / 16, ACROSS = BM / 16, SCORES = DOWN * ACROSS * STORED;
    extern __shared__ __align__(16) unsigned char memory[];
    T *ks = reinterpret_cast<T*>(memory), *scores = ks + STAGES * TILE;

    Place at(p, (p.rows + BM - 1) / BM, p.heads, g.first * p.group, g.count * p.group);
    Span span(p, starts_q, starts_k, at.batch);
    int first = at.tile * BM, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (first >= span.rows) return;
    const T* k0 = k + p.k.at(at.batch, at.head / p.group, span.key0);
    int seen = span.keys;
    if (p.causal) seen = max(0, min(seen, min(first + BM, span.rows) + span.diagonal));
    int begin, end;
    at.share(p, (seen + BN - 1) / BN, begin, end);

    // A thread copies vectors of the same place in tiles that are STEP apart.
    constexpr int VECTORS = STORED / 8, STEP = THREADS / VECTORS;
    static_assert(ACROSS % STEP == 0, "every thread copies as much of each row of tiles");
    const T* from =
        stored + (g.row(at.index, begin * DOWN) + first / 16) * STORED + threadIdx.x * 8;
    int row0 = first + static_cast<int>(threadIdx.x) / VECTORS * 16;
    auto fetch_tile = [&](int j) {
        if (j >= end) return;
        fetch<BN, HEAD, THREADS>(ks + j % STAGES * TILE, j * BN, span.keys, p.depth, k0, p.k.row);
        unsigned to = shared_address(scores + j % STAGES * SCORES) + 16 * threadIdx.x;
#pragma unroll
        for (int down = 0; down < DOWN; ++down) {
            // Tiles without a score that a query sees were not written.
            int key16 = j * DOWN + down, last = key16 * 16 < span.keys ? span.rows - 1 : -1;
            int least = p.causal ? key16 * 16 - 15 - span.diagonal : 0;
#pragma unroll
            for (int i = 0; i < ACROSS; i += STEP) {
                int row = row0 + i * 16;
                copy_async<16>(to + 2 * (down * ACROSS + i) * STORED, from + i * STORED,
                               row >= least && row <= last);
            }
            from += (g.row_tiles - (g.half ? key16 + 1 : 0)) * STORED;
        }
    };
#pragma unroll
    for (int j = 0; j < STAGES - 1; ++j) {
        fetch_tile(begin + j);
        commit_copies();
    }
    // The 8 x 8 matrices of a tile lie as [keys][queries]: the left operand has them transposed.
    unsigned a = shared_address(scores) + 2 * warp * M * STORED +
                 (lane / 16 + lane / 8 % 2 * 2) * 128 + lane % 8 * 16;
    unsigned b = shared_address(ks) + left_place(PITCH);
    float result[M][HEAD / 8][4] = {};
    int mine = first + warp * M * 16;
#pragma unroll 1
    for (int j = begin; j < end; ++j) {
        wait_copies<STAGES - 2>();
        __syncthreads();
        fetch_tile(j + STAGES - 1);
        commit_copies();
        if (mine >= span.rows) continue;
        unsigned left_at = a + j % STAGES * SCORES * 2, right_at = b + j % STAGES * TILE * 2;
#pragma unroll
        for (int step = 0; step < DOWN; ++step) {
            unsigned left[M][4];
#pragma unroll
            for (int m = 0; m < M; ++m)
                load_matrices_x4<true>(left[m], left_at + 2 * (step * ACROSS + m) * STORED);
#pragma unroll
            for (int n = 0; n < HEAD / 8; n += 2) {
                unsigned right[4];
                load_matrices_x4<true>(right, right_at + 2 * (step * 16 * PITCH + n * 8));
#pragma unroll
                for (int m = 0; m < M; ++m) {
                    mma<T>(result[m][n], left[m], right);
                    mma<T>(result[m][n + 1], left[m], right + 2);
                }
            }
        }
    }
    wait_copies<0>();
    __syncthreads();
    scale_all(result, p.scale * LN2);
    if (partial) {
        store_partial(partial + at.partial(g.count * p.group, p.rows, HEAD), result, mine,
                      span.rows);
        return;
    }
    auto row = [&](int r) { return dq + g.dq.at(at.batch, at.head, span.row0 + r); };
    store_rows(ks + warp * M * 16 * PITCH, result, mine, span.rows, p.depth, row);
}
