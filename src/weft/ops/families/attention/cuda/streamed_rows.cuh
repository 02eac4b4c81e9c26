// Rows of queries beside tma_backward.cuh: what its blocks read for each query, and the sums dQ
// that they leave.
#pragma once
#include <weft/mma.cuh>
#include "backward.cuh"

STRUCT_STREAMED;

// dQ is computed transposed: its rows are the head's elements. For heads of more than 64 a
// warpgroup has half of the elements, and for others half of the queries.
__device__ constexpr bool divided(int head) { return head > 64; }
// Floats of dQ for a tile of queries: of whole slabs.
__device__ constexpr int sum_floats(int head, int queries) {
    return queries * (divided(head) ? 128 : 64);
}
// Queries of a warpgroup.
__device__ constexpr int sum_queries(int head, int queries) {
    return divided(head) ? queries : queries / 2;
}

// Before: for each tile of BS queries, the logarithms of their sums to base 2 and then their
// deltas. Rows that are not there get weights of 0. The counts of parts of dQ become 0.
template <class T, int HEAD, int BS>
__device__ void prepare_rows(const T* o, const T* dout, const float* lse, const float* dlse,
                             float* to, unsigned* done, const Problem& p, const Gradients& g,
                             const Streamed& streamed) {
    constexpr int LANES = lanes_of<T>(HEAD);
    long long n = blockIdx.x * static_cast<long long>(blockDim.x / LANES) + threadIdx.x / LANES;
    int padded = streamed.tiles * BS, row = n % padded, head = n / padded % p.heads,
        batch = n / padded / p.heads;
    bool inside = batch < p.batch && row < p.rows;
    const T *a = o + p.o.at(batch, head, row), *b = dout + g.dout.at(batch, head, row);
    float delta = row_delta<T, HEAD, LANES>(a, b, inside ? p.width : 0), log = INFINITY;
    if (batch >= p.batch || threadIdx.x % LANES) return;
    if (inside) {
        long long at = p.lse.at(batch, head, row);
        log = log_of_sum(lse[at]);
        if (dlse) delta -= dlse[at];
    }
    float* place = to + n / BS * 2 * BS + n % BS;
    place[0] = log, place[BS] = delta;
    if (n % BS == 0) done[n / BS] = 0;
}

// After: the sums of a tile of queries, which lie as the registers of two warpgroups, become rows.
template <class T, int HEAD, int BS>
__device__ void round_sums(const float* sums, T* dq, const Problem& p, const Gradients& g,
                           const Streamed& streamed) {
    constexpr int FLOATS = sum_floats(HEAD, BS), PITCH = FLOATS / BS + 8, ACROSS = HEAD / 8;
    constexpr int OWN = sum_queries(HEAD, BS), PAIRS = FLOATS / 2048;
    __shared__ __align__(16) T rows[BS][PITCH];
    int number = blockIdx.x, tile = number % streamed.tiles, head = number / streamed.tiles,
        batch = head / p.heads;
    head %= p.heads;
    int warpgroup = threadIdx.x / 128, lane = threadIdx.x % 32,
        d = (divided(HEAD) ? warpgroup * 64 : 0) + threadIdx.x / 32 % 4 * 16,
        first = divided(HEAD) ? 0 : warpgroup * OWN;
    const float4* from =
        reinterpret_cast<const float4*>(sums + static_cast<long long>(number) * FLOATS) +
        warpgroup * (FLOATS / 8) + threadIdx.x % 128;
    float4 x[PAIRS][2];
#pragma unroll
    for (int i = 0; i < 2 * PAIRS; ++i) x[i / 2][i % 2] = from[i * 128];
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        float scale = p.scale * LN2;
        unsigned words[4];
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            words[2 * n] = pack<T>(x[i][n].x * scale, x[i][n].y * scale);
            words[2 * n + 1] = pack<T>(x[i][n].z * scale, x[i][n].w * scale);
        }
        // Fragments have elements of the head as rows; a lane names a query and 8 elements.
        store_matrices_x4<true>(
            shared_address(&rows[first + i * 16 + lane / 16 * 8 + lane % 8][d + lane / 8 % 2 * 8]),
            words);
    }
    __syncthreads();
    T* row0 = dq + g.dq.at(batch, head, tile * BS);
    bool vectors = (p.depth | g.dq.batch | g.dq.head | g.dq.row) % 8 == 0;
    for (int i = threadIdx.x; i < BS * ACROSS; i += blockDim.x) {
        int r = i / ACROSS, c = i % ACROSS * 8;
        if (tile * BS + r >= p.rows) break;
        T* at = row0 + r * g.dq.row + c;
        if (vectors) {
            if (c < p.depth)
                *reinterpret_cast<uint4*>(at) = *reinterpret_cast<const uint4*>(&rows[r][c]);
        } else {
            for (int e = 0; e < 8 && c + e < p.depth; ++e) at[e] = rows[r][c + e];
        }
    }
}
