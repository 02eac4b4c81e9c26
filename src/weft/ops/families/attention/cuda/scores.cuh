// The gradient of an added mask, which is that of the scores: W * (dW - delta) as in backward.cuh,
// [batch][head][query][key].
#pragma once
#include "stored_scores.cuh"

// A block computes 16 WARPS queries and as many keys.
template <class T, int HEAD, int WARPS, int MASK, bool DROP, class S>
__device__ void score_gradients(const T* q, const T* k, const T* v, const void* mask, const T* dout,
                                const float* lse, const float* deltas, S* to_scores,
                                const Problem& p, const Gradients& g, const Random& random) {
    constexpr int THREADS = WARPS * 32, SIDE = WARPS * 16, PITCH = pitch(HEAD), N = SIDE / 8;
    extern __shared__ __align__(16) unsigned char memory[];
    T *qs = reinterpret_cast<T*>(memory), *ds = qs + SIDE * PITCH, *ks = ds + SIDE * PITCH,
      *vs = ks + SIDE * PITCH;
    int across = (p.keys + SIDE - 1) / SIDE, down = (p.rows + SIDE - 1) / SIDE;
    int key0 = blockIdx.x % across * SIDE, first = blockIdx.x / across % down * SIDE;
    int head = blockIdx.x / across / down % p.heads, batch = blockIdx.x / across / down / p.heads;
    Span span(p, nullptr, nullptr, batch);
    fetch<SIDE, HEAD, THREADS>(qs, first, p.rows, p.depth, q + p.q.at(batch, head, 0), p.q.row);
    fetch<SIDE, HEAD, THREADS>(ds, first, p.rows, p.width, dout + g.dout.at(batch, head, 0),
                               g.dout.row);
    fetch<SIDE, HEAD, THREADS>(ks, key0, p.keys, p.depth, k + p.k.at(batch, head / p.group, 0),
                               p.k.row);
    fetch<SIDE, HEAD, THREADS>(vs, key0, p.keys, p.width, v + p.v.at(batch, head / p.group, 0),
                               p.v.row);
    commit_copies();
    wait_copies<0>();
    __syncthreads();

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, mine = first + warp * 16;
    unsigned a = shared_address(qs) + left_place(PITCH) + 2 * warp * 16 * PITCH,
             c = a + 2 * SIDE * PITCH;
    unsigned b = shared_address(ks) + right_place(PITCH), d = b + 2 * SIDE * PITCH;
    float s[1][N][4] = {}, dw[1][N][4] = {};
    product_nt<T, 1, N, HEAD / 16>(s, a, PITCH, b, PITCH);
    Rows<T, 1, MASK>(p, span, mask, batch, head, mine, p.rows).hide(s, key0, p.scale);
    product_nt<T, 1, N, HEAD / 16>(dw, c, PITCH, d, PITCH);
    if constexpr (DROP) Drop(p, random, batch, head).rows(dw, mine, key0);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        int row = mine + half * 8 + lane / 4;
        if (row >= p.rows) continue;
        long long at = p.lse.at(batch, head, row);
        float log = log_of_sum(lse[at]), delta = deltas[at];
        S* to_row = to_scores + at * p.keys;
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; ++i) {
                int key = key0 + n * 8 + lane % 4 * 2 + i % 2;
                derive(s[0][n][i], dw[0][n][i], 1, log, delta);
                if (key < p.keys) to_row[key] = to<S>(dw[0][n][i]);
            }
    }
}
