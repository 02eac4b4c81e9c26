// The warp that copies: what a block needs, stage after stage, in the order in which it is used.
// None of it depends on what the step computes.
#pragma once
#include "attention.cuh"
#include "product.cuh"

template <class C>
struct Copies {
    const Shared<C>& shared;
    Turn<C::STAGES> turn;

    // Begins a stage of so many bytes; one thread calls it.
    __device__ Barrier& begin(int bytes) {
        shared.stages->wait_empty(turn);
        Barrier& full = shared.stages->full[turn.stage];
        full.arrive_expecting(bytes);
        return full;
    }
    __device__ unsigned to() const { return shared_address(shared.stage(turn)); }

    __device__ void norm(const typename C::T* weight) {
        int bytes = shared.p.width * sizeof(*weight);
        Barrier& full = begin(bytes);
        load_bytes(to(), weight, full, bytes);
        turn.next();
    }
    __device__ void weight(const Product<C>& w) {
        for (int unit = blockIdx.x; unit < w.units(); unit += gridDim.x) {
#pragma unroll 1
            for (int at = 0; at < w.row; at += PIECE, turn.next()) {
                bool scaled = C::GROUPED || (C::BY_ROW && at == 0);
                Barrier& full = begin(STAGED + (scaled ? C::SCALE_BYTES : 0));
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    int row = w.row_of(unit, half);
                    load_box(to() + half * STAGED / 2, *w.map, full, at / 4, row);
                    unsigned scales = to() + STAGED + half * C::SCALE_BYTES / 2;
                    if constexpr (C::GROUPED)
                        load_box(scales, *w.scale_map, full, at / PIECE * C::GROUPS, row);
                    if (C::BY_ROW && at == 0)
                        load_bytes(scales, w.scales + row, full, C::SCALE_BYTES / 2);
                }
            }
        }
    }
    __device__ void keys(int layer) {
        const DecodeStep& p = shared.p;
        const TensorMap* maps = shared.maps + layer * MAPS;
        for (int item = blockIdx.x; item < Span<C>::count(p); item += gridDim.x) {
            Span<C> span(shared, item);
            for (int tile = span.begin; tile < span.end; tile += TILE)
#pragma unroll
                for (int side = 0; side < 2; ++side, turn.next()) {
                    constexpr int ELEMENTS = TILE_ROW / 2;
                    Barrier& full = begin(TILE * C::SIZE * 2);
#pragma unroll
                    for (int i = 0; i < C::SIZE / ELEMENTS; ++i)
                        load_box(to() + i * TILE * TILE_ROW, maps[KEY_MAP + side], full,
                                 i * ELEMENTS / 2, span.head, span.token * p.capacity + tile);
                }
        }
    }
    // Copies all of a step.
    __device__ void all() {
        int products = shared.p.products;
#pragma unroll 1
        for (int i = 0; i < products; ++i) {
            Product<C> w(shared, i);
            // The map of the next product comes from memory, too.
            if (i + 1 < products) prefetch_map(*Product<C>(shared, i + 1).map);
            if (i % 4 == 0) {
                prefetch_map(shared.maps[i / 4 * MAPS + KEY_MAP]);
                prefetch_map(shared.maps[i / 4 * MAPS + VALUE_MAP]);
            }
            if (i % 4 == 1) keys(i / 4);
            if (i % 2 == 0)
                norm(shared.template at<const typename C::T>(i / 4, i % 4 ? NORM2 : NORM1));
            weight(w);
        }
    }
};
