// Attention with up to 16 queries on tensor cores: memory is the limit. A warp has a ring of its
// own, which a lane of it fills by TMA: keys and values of its next steps are always on the way,
// and it waits for no other warp until the end.
#pragma once
#include <weft/early_launch.cuh>
#include <weft/pipeline.cuh>
#include <weft/wgmma.cuh>
#include "split.cuh"

// The queries of a warp: rows lane / 4 and lane / 4 + 8, as the A of a product for 16 elements.
template <class T, int HEAD>
struct RingQueries {
    unsigned of[HEAD / 16][4];

    // `at` gives the address of a row; rows from `rows` on and elements from `depth` on are zeros.
    template <class At>
    __device__ void read(int first, int rows, int depth, At at) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int r = first + half * 8 + lane_index() / 4;
            const T* row = at(min(r, rows - 1));
#pragma unroll
            for (int i = 0; i < HEAD / 8; ++i) {
                int c = i * 8 + lane_index() % 4 * 2;
                bool inside = r < rows && c < depth;  // rows are whole vectors
                of[i / 2][i % 2 * 2 + half] =
                    inside ? *reinterpret_cast<const unsigned*>(row + c) : 0;
            }
        }
    }
};

// KEYS: of a step of a warp. A stage has their keys and values, each as slabs.
template <class T, int HEAD, int WARPS, int STAGES, int KEYS, int MASK, int SPLIT>
__device__ void attend_by_rings(const T* q, const TensorMap& k, const TensorMap& v,
                                const void* mask, T* o, float* lse, float* partial, int* counters,
                                const Problem& p) {
    constexpr int BM = 16, SLAB = slab_bytes(KEYS), TILE = tile_bytes(KEYS, HEAD), STAGE = 2 * TILE;
    extern __shared__ __align__(16) float floats[];
    __shared__ Barrier full[WARPS][STAGES];
    int lane = lane_index(), warp = warp_index();
    Barrier* mine = full[warp];
    unsigned ring = slab_aligned(shared_address(floats)) + warp * STAGES * STAGE;
    if (lane == 0) {
        for (int i = 0; i < STAGES; ++i) mine[i].init(1);
        publish_barriers();
        if (warp == 0) prefetch_map(k), prefetch_map(v);
    }
    __syncwarp();
    Place at(p, (p.rows * p.pack + BM - 1) / BM, p.heads / p.pack);
    start_next_kernel();
    Span span(p, nullptr, nullptr, at.batch);
    int rows = span.rows * p.pack, first = at.tile * BM, head = at.head * p.pack;
    auto row_of = [&](auto* base, const Strides& s) {
        return [=, &p](int r) { return base + s.at(at.batch, head + r % p.pack, r / p.pack); };
    };
    KeyTiles<BM, KEYS> steps(p, span, first, rows);
    if constexpr (SPLIT != WHOLE) steps.take(at.part, p.parts);
    int end = steps.end, whole = MASK == FREE ? steps.whole : 0, j = steps.begin + warp;

    // Behind a shuffle, no copy divides again.
    int shared_head = shuffle(head / p.group, 0);
    auto copy = [&](int step, int stage) {
        if (lane || step >= end) return;
        mine[stage].arrive_expecting(STAGE);
        unsigned to = ring + stage * STAGE;
        int row = step * KEYS;
#pragma unroll
        for (int i = 0; i < TILE / SLAB; ++i) {
            load_box(to + i * SLAB, k, mine[stage], i * 64, row, shared_head, at.batch);
            load_box(to + TILE + i * SLAB, v, mine[stage], i * 64, row, shared_head, at.batch);
        }
    };
    wait_for_kernels();
#pragma unroll
    for (int i = 0; i < STAGES; ++i) copy(j + i * WARPS, i);
    RingQueries<T, HEAD> queries;
    queries.read(first, rows, p.depth, row_of(q, p.q));
    Rows<T, 1, MASK> view(p, span, mask, at.batch, head, first, rows);
    float scale = MASK == FREE ? p.scale : 1, result[1][HEAD / 8][4] = {};
    Online<1> online;
    // Where a lane reads fragments of a slab. The exclusive or that exchanges vectors is of the
    // row, so that another column is another exclusive or.
    unsigned key_at = swizzle<128>(lane / 16 * 8 + lane % 8, lane / 8 % 2),
             value_at = swizzle<128>(lane % 16, lane / 16);
    Turn<STAGES> turn;
#pragma unroll 1
    for (; j < end; j += WARPS, turn.next()) {
        unsigned keys = ring + turn.stage * STAGE, values = keys + TILE;
        mine[turn.stage].wait(turn.parity);
        float s[1][KEYS / 8][4] = {};
#pragma unroll
        for (int i = 0; i < HEAD / 16; ++i)
#pragma unroll
            for (int n = 0; n < KEYS / 16; ++n) {
                unsigned right[4];
                load_matrices_x4(right,
                                 keys + i / 4 * SLAB + slab_bytes(16) * n + (key_at ^ i % 4 * 32));
                mma<T>(s[0][2 * n], queries.of[i], right);
                mma<T>(s[0][2 * n + 1], queries.of[i], right + 2);
            }
        if (j >= whole) view.hide(s, j * KEYS, p.scale);
        online.template weigh<true>(s, result, scale);
#pragma unroll
        for (int n = 0; n < KEYS / 16; ++n) {
            unsigned weights[4];
            c_to_a<T>(weights, s[0][2 * n], s[0][2 * n + 1]);
#pragma unroll
            for (int i = 0; i < HEAD / 16; ++i) {
                unsigned right[4];
                load_matrices_x4<true>(
                    right, values + i / 4 * SLAB + slab_bytes(16) * n + (value_at ^ i % 4 * 32));
                mma<T>(result[0][2 * i], weights, right);
                mma<T>(result[0][2 * i + 1], weights, right + 2);
            }
        }
        __syncwarp();  // all lanes have read the stage
        copy(j + STAGES * WARPS, turn.stage);
    }
    online.finish(result, scale);

    __syncthreads();  // results lie where the rings were
    int count = min(BM, rows - first);
    bool whole_vectors = (p.width | p.o.batch | p.o.head | p.o.row) % 4 == 0;
    Partial<HEAD, BM, false> shared{floats};
    shared.of(warp).write_rows(result, online.most, 0, count);
    combine_warps<HEAD, BM, WARPS * 32, SPLIT, WARPS>(
        shared, count, partial, counters, at.number, at.part, p.parts,
        [&](int r, int c, const Vector<float, 4>& x) {
            store_four(row_of(o, p.o)(first + r), c, p.width, whole_vectors, x);
        },
        [&](int r, float x) {
            if (lse) *row_of(lse, p.lse)(first + r) = LN2 * x;
        });
}
