// Attention for f16 and bf16 on Hopper, in the structure of FlashAttention-3 (Shah et al. 2024): a
// warp copies tiles of queries, keys and values by TMA, and WARPGROUPS warpgroups have 64 queries
// each, a unit. While the tensor cores multiply the weights of one tile by its values and the
// queries by the next keys, a warpgroup computes the softmax of another tile. This goes on from
// one unit to the next: its first scores are computed beside the last products of the one before.
//
// An item of work is some units of a head, whose keys and values are copied once. If the rings hold
// all of them, an item may have more units than there are warpgroups.
#pragma once
#include <weft/early_launch.cuh>
#include <weft/pipeline.cuh>
#include <weft/wgmma.cuh>
#include "results.cuh"
#include "split.cuh"
#include "tickets.cuh"
#include "tma_items.cuh"
#include "tma_mask.cuh"

// PACK: heads that are rows of the same units. SLOTS: units of queries in shared memory for each
// warpgroup. MASKS: tiles of the mask in shared memory for each warpgroup; 0: it is read where it
// is. REGISTERS: the queries are left operands from registers, and their slot is free as soon as
// they are there. IN_TURNS: warpgroups issue their products one after another. BOXES: results are
// stored by TMA, from the slot of their queries. BLOCKS: of an SM.
template <class T, int HEAD, int BN, int WARPGROUPS, int STAGES, int SLOTS, int MASK, int MASKS,
          bool SPLIT, int PACK, bool IN_TURNS, bool REGISTERS, bool BOXES, int BLOCKS>
__device__ void attend_units(const TensorMap& q, const TensorMap& k, const TensorMap& v,
                             const TensorMap& mask_map, const TensorMap& out_map, const void* mask,
                             T* o, float* lse, const int* starts_q, const int* starts_k,
                             float* partial, int* counters, const Problem& p, const Units& units) {
    constexpr int N = BN / 8, WIDTH = HEAD / 8, SLABS = (HEAD + 63) / 64,
                  PIECE = HEAD < 128 ? HEAD : 128;
    constexpr int QUERIES = tile_bytes(64, HEAD), TILE = tile_bytes(BN, HEAD);
    using Masked = MaskTile<T, MASK, BN>;
    using R = RegisterShares<WARPGROUPS, BLOCKS>;
    constexpr int TEAM = WARPGROUPS * 4;  // warps that multiply
    static_assert(!BOXES || (SLOTS > 1 && !SPLIT && !REGISTERS),
                  "a slot is free when its results are stored");
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ Stages<SLOTS> queries[WARPGROUPS];
    __shared__ Stages<STAGES> keys, values;
    __shared__ Barrier spare;
    __shared__ Stages<2> handed;
    __shared__ Item next_items[2];
    __shared__ int last_part[WARPGROUPS];
    [[maybe_unused]] __shared__ Stages<MASKS ? MASKS : 1> masks[MASKS ? WARPGROUPS : 1];
    __shared__ Item waiting[TEAM];  // each warp's, with the unit whose product waits
    unsigned qs = slab_aligned(shared_address(memory)), ks = qs + WARPGROUPS * SLOTS * QUERIES,
             vs = ks + STAGES * TILE, ms = vs + STAGES * TILE,
             table = ms + (MASKS ? WARPGROUPS * MASKS * Masked::BYTES : 0);
    if (threadIdx.x == 0) {
        handed.init(1, TEAM + (MASKS ? WARPGROUPS : 0));
        for (int i = 0; i < WARPGROUPS; ++i) queries[i].init(1, BOXES ? 1 : 4);
        keys.init(1, TEAM), values.init(1, TEAM), spare.init(1);
        if constexpr (MASKS > 0)
            for (int i = 0; i < WARPGROUPS; ++i) masks[i].init(1, 4);
        publish_barriers();
    }
    if (units.rows < 64) {  // the other rows of a slot are never copied
        for (unsigned i = threadIdx.x * 16; i < WARPGROUPS * SLOTS * QUERIES; i += blockDim.x * 16)
            *reinterpret_cast<uint4*>(memory + (qs - shared_address(memory)) + i) = uint4();
        publish_tiles();
    }
    start_next_kernel();
    __syncthreads();
    const Decoder<PACK> decoder{p, units};
    int warpgroup = warpgroup_index(), lane = threadIdx.x % 32;
    auto take = [&](Turn<2>& hand) { return take_item(handed, next_items, hand); };
    // Calls each(unit, first row, end of tiles) for the units of warpgroup `w`; items before this
    // one had `base` units.
    auto each_unit = [&](const Item& work, int count, int base, int w, auto each) {
        int u = (w + WARPGROUPS - base % WARPGROUPS) % WARPGROUPS;
#pragma unroll 1
        for (; u < count; u += WARPGROUPS) {
            int first = work.first + u * units.rows,
                end = min(work.end, decoder.seen(work, first + units.rows, BN));
            each(u, first, max(end, work.begin + 1));
        }
    };

    if (warpgroup == WARPGROUPS) {
        if constexpr (R::SHARED) fewer_registers<R::COPYING>();
        int helper = threadIdx.x % 128 / 32 - 1;  // the warpgroup whose masks this warp copies
        if (helper >= (MASKS ? WARPGROUPS : 0)) return;
        if constexpr (MASKS > 0) {
            static_assert(WARPGROUPS <= 3 && PACK == 1, "a warp for the masks of each warpgroup");
            if (helper >= 0) {
                if (lane == 0) prefetch_map(mask_map);
                wait_for_kernels();
                Turn<MASKS> turn;
                Turn<2> hand;
                int base = 0;
#pragma unroll 1
                for (Item work = take(hand); work.count >= 0; work = take(hand)) {
                    each_unit(work, work.count, base, helper, [&](int, int first, int end) {
#pragma unroll 1
                        for (int j = work.begin; j < end; ++j, turn.next()) {
                            masks[helper].wait_empty(turn);
                            __syncwarp();
                            if (lane == 0)
                                Masked::load(ms + (helper * MASKS + turn.stage) * Masked::BYTES,
                                             mask_map, masks[helper].full[turn.stage], p,
                                             work.batch, work.head, first, j * BN);
                        }
                    });
                    base += work.count;
                }
                return;
            }
        }
        if (lane == 0) prefetch_map(q), prefetch_map(k), prefetch_map(v);
        // No lane may be a phase behind when the first one fills a stage again: a warp meets after
        // its waits.
        Turn<STAGES> turn;
        Turn<2> hand;
        int base = 0, spares = 0, ahead = 0;  // units whose queries were copied before their item
        auto hand_over = [&](int id) {
            Item work = decoder.item(starts_q, starts_k, id, BN);
            handed.wait_empty(hand);
            __syncwarp();
            if (lane == 0) next_items[hand.stage] = work, handed.full[hand.stage].arrive();
            __syncwarp();
        };
        auto slot_of = [&](int n) { return n / WARPGROUPS % SLOTS; };
        auto phase_of = [&](int n) { return n / WARPGROUPS / SLOTS % 2 ^ 1; };
        // Unit `u` of an item is number n of all units.
        auto fetch_unit = [&](const Item& work, int u, int n) {
            int w = n % WARPGROUPS, slot = slot_of(n);
            Stages<SLOTS>& of = queries[w];
            of.empty[slot].wait(phase_of(n));
            __syncwarp();
            if (lane) return;
            of.full[slot].arrive_expecting(SLABS * slab_bytes(units.rows));
#pragma unroll
            for (int i = 0; i < SLABS; ++i)
                load_box(qs + (w * SLOTS + slot) * QUERIES + i * slab_bytes(64), q, of.full[slot],
                         i * 64, work.head, work.row0 + decoder.query(work.first + u * units.rows),
                         work.batch);
        };
        // The first item is decoded while the kernel before this one ends, if its place is not in
        // memory.
        if (starts_k) wait_for_kernels();
        hand_over(blockIdx.x);
        wait_for_kernels();
#pragma unroll 1
        for (;;) {
            const Item& work = next_items[hand.stage];
            int count = work.count, begin = work.begin, end = work.end, b = work.batch;
            if (count < 0) break;
            int next = lane == 0 ? Tickets::draw(counters) : 0;
            int head = work.head / p.group, key0 = starts_k ? starts_k[b] : 0;
            int rest = work.keys - begin * BN, following = 0;
            auto fetch_tile = [&](unsigned to, const TensorMap& map, Barrier& full, int j) {
                __syncwarp();
                if (lane) return;
                full.arrive_expecting(TILE);
#pragma unroll
                for (int i = 0; i < SLABS; ++i)
                    load_box(to + i * slab_bytes(BN), map, full, i * 64, key0 + j * BN, head, b);
            };
#pragma unroll 1
            for (int u = ahead; u < min(count, WARPGROUPS); ++u) fetch_unit(work, u, base + u);
            ahead = 0;
            // The next item is known from the second tile on, or from the first one if there is no
            // other. A sequence that is shorter than others has items without tiles.
            int known = max(begin, MASKS ? end - 1 : min(begin + 1, end - 1));
#pragma unroll 1
            for (int j = begin; j < max(end, begin + 1); ++j, rest -= BN) {
                if (j < end) {
                    keys.wait_empty(turn);
                    fetch_tile(ks + turn.stage * TILE, k, keys.full[turn.stage], j);
                    values.wait_empty(turn);
                    unsigned to = vs + turn.stage * TILE;
                    bool cut = starts_k && rest < BN;
                    fetch_tile(to, v, cut ? spare : values.full[turn.stage], j);
                    if (cut) {
                        // The rows behind the last one are those of another sequence: their
                        // weights are 0, but they may be infinite.
                        spare.wait(spares++ % 2);
                        for (int i = max(rest, 0) * 8 + lane; i < BN * 8; i += 32)
#pragma unroll
                            for (int slab = 0; slab < SLABS; ++slab)
                                *reinterpret_cast<uint4*>(memory + (to - shared_address(memory)) +
                                                          slab * slab_bytes(BN) + i * 16) = uint4();
                        publish_tiles();
                        __syncwarp();
                        if (lane == 0) values.full[turn.stage].arrive();
                    }
                    turn.next();
                }
                if (j == known) {
                    hand.next(), hand_over(shuffle(next, 0));
                    if (!MASKS && count <= WARPGROUPS)  // with masks it has no registers for it
                        following = min(next_items[hand.stage].count, WARPGROUPS);
                }
                // Queries are copied as soon as there is room: they come from memory, and take
                // longer than a tile.
#pragma unroll 1
                for (; ahead < following; ++ahead) {
                    int n = base + count + ahead;
                    bool free = queries[n % WARPGROUPS].empty[slot_of(n)].is_complete(phase_of(n));
                    if (!__all_sync(~0u, free)) break;
                    fetch_unit(next_items[hand.stage], ahead, n);
                }
            }
#pragma unroll 1
            for (int u = WARPGROUPS; u < count; ++u) fetch_unit(work, u, base + u);
            base += count;
        }
        if (lane == 0) Tickets::end(counters);
        return;
    }
    if constexpr (R::SHARED) more_registers<R::COMPUTING>();
    wait_for_kernels();
    int warp = threadIdx.x / 32 % 4;
    [[maybe_unused]] bool storer = threadIdx.x % 128 == 0;
    unsigned long long right = wgmma_rows(ks), right_values = wgmma_columns<BN>(vs), left = 0;
    bool vectors = (p.width | p.o.batch | p.o.head | p.o.row) % 8 == 0;
    // Masks in shared memory are added to scores that are not scaled yet.
    constexpr bool LATE = MASK == FREE || MASK == WINDOW || MASKS > 0;
    float scale = LATE ? p.scale : 1;
    [[maybe_unused]] float unit = LOG2E / p.scale;
    [[maybe_unused]] Turn<MASKS ? MASKS : 1> mask_turn;
    float result[1][WIDTH][4], s[1][N][4];
    unsigned weights[BN / 16][4];
    [[maybe_unused]] unsigned held[REGISTERS ? HEAD / 16 : 1][4];
    Online<1> online;
    Rows<T, 1, MASKS ? WINDOW : MASK> view;
    // The tile of values that the weights belong to, and whether it is released after the product.
    int before = 0;
    bool release_before = false, fresh = true, started = false;
    auto release = [&](Barrier& b) {
        if (lane == 0) b.arrive();
    };
    auto my_turn = [&] {
        if constexpr (IN_TURNS) barrier_sync<256>(1 + warpgroup);
    };
    auto next_turn = [&] {
        if constexpr (IN_TURNS) barrier_arrive<256>(1 + (warpgroup + 1) % WARPGROUPS);
    };
    auto multiply_keys = [&](int stage) {
#pragma unroll
        for (int i = 0; i < HEAD / 16; ++i) {
            unsigned long long to =
                wgmma_moved(right, stage * TILE + i / 4 * slab_bytes(BN) + i % 4 * 32);
            if constexpr (REGISTERS) wgmma_left<T, false>(s[0], held[i], to, i > 0);
            else wgmma<T>(s[0], wgmma_moved(left, i / 4 * slab_bytes(64) + i % 4 * 32), to, i > 0);
        }
        wgmma_commit();
    };
    auto multiply_values = [&] {
#pragma unroll
        for (int i = 0; i < BN / 16; ++i)
#pragma unroll
            for (int c = 0; c < HEAD; c += 128) {
                unsigned long long at =
                    wgmma_moved(right_values, before % STAGES * TILE + i * slab_bytes(16) +
                                                  c / 64 * slab_bytes(BN));
                if (c + 128 <= HEAD || HEAD < 128)
                    wgmma_left<T>(reinterpret_cast<float (&)[PIECE / 8][4]>(result[0][c / 8]),
                                  weights[i], at, i > 0 || !fresh);
                else
                    wgmma_left<T>(reinterpret_cast<float (&)[8][4]>(result[0][c / 8]), weights[i],
                                  at, i > 0 || !fresh);
            }
        wgmma_commit();
    };
    auto wait_values = [&] { values.full[before % STAGES].wait(before / STAGES % 2); };
    auto products_done = [&] {
        wgmma_wait<0>();
        wgmma_results(result[0]);
        if (release_before) release(values.empty[before % STAGES]);
    };
    // Stores the results of a unit, or its part of them; `of` has its sums.
    auto store_unit = [&](Online<1>& of) {
        of.finish(result, scale);
        const Item out = waiting[threadIdx.x / 32];  // `begin` is its slot
        auto row_of = [&](auto* to, const Strides& by, int r) {
            int query = decoder.query(r);
            return to + by.at(out.batch, out.head + r - query * PACK, out.row0 + query);
        };
        int mine = out.first + warp * 16, rows = min(out.rows, out.first + units.rows);
        if constexpr (!SPLIT) {
            if constexpr (BOXES) {
                unsigned at = qs + (warpgroup * SLOTS + out.begin) * QUERIES;
                results_to_tile<T>(at, result[0], warp * 16);
                publish_tiles();
                barrier_sync<128>(8 + warpgroup);
                if (storer) {
                    for (int i = 0; i < SLABS; ++i)
                        if (i * 64 < p.width)
                            store_box(out_map, at + i * slab_bytes(64), i * 64, out.head,
                                      out.row0 + decoder.query(out.first), out.batch);
                    commit_stores();
                }
            } else {
                store_results<T>(result[0], mine, rows, p.width, vectors,
                                 [&](int r) { return row_of(o, p.o, r); });
            }
            if (lse && lane % 4 == 0) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    int r = mine + i * 8 + lane / 4;
                    if (r < rows) *row_of(lse, p.lse, r) = LN2 * of.most[0][i];
                }
            }
        } else {
            Partial<HEAD, 64, true> all{partial};
            all.of(static_cast<long long>(out.number) * p.parts + out.part)
                .write_rows(result, of.most, warp * 16, rows - out.first);
            Team<128> team{8 + warpgroup};
            if (!team.is_last(counters + 2 + out.number, p.parts, last_part + warpgroup)) return;
            bool whole = (p.width | p.o.batch | p.o.head | p.o.row) % 4 == 0;
            float* room = reinterpret_cast<float*>(memory + (table - shared_address(memory))) +
                          warpgroup * 64 * p.parts;
            combine<HEAD, 64, true>(
                team, all.of(static_cast<long long>(out.number) * p.parts), p.parts,
                rows - out.first, room,
                [&](int r, int c, const Vector<float, 4>& x) {
                    store_four(row_of(o, p.o, out.first + r), c, p.width, whole, x);
                },
                [&](int r, float x) {
                    if (lse) *row_of(lse, p.lse, out.first + r) = LN2 * x;
                });
        }
    };
    // Frees the slot that results were stored from.
    auto release_stored = [&] {
        if constexpr (BOXES) {
            if (!storer) return;
            wait_stores_read<0>();
            queries[warpgroup].empty[waiting[threadIdx.x / 32].begin].arrive();
        }
    };
    // A step of a unit. START: nothing is under way; otherwise the first step of a unit issues the
    // last products of the unit before, whose results it stores.
    auto step = [&](auto start, bool first, int tile, int j, bool guarded, bool last) {
        constexpr bool START = decltype(start)::value;
        int stage = tile % STAGES;
        keys.full[stage].wait(tile / STAGES % 2);
        if constexpr (!START) wait_values();
        my_turn();
        wgmma_begin();
        multiply_keys(stage);
        if constexpr (!START) multiply_values();
        next_turn();
        wgmma_wait<START ? 0 : 1>();
        wgmma_results(s[0]);
        if (last) release(keys.empty[stage]);
        [[maybe_unused]] Online<1> ended = online;
        if (START || first) online = Online<1>();
        float factor[1][2];
        if constexpr (MASKS > 0) {
            masks[warpgroup].wait_full(mask_turn);
            Masked::apply(s[0], ms + (warpgroup * MASKS + mask_turn.stage) * Masked::BYTES,
                          p.mask.row, warp * 16, unit);
            __syncwarp();
            release(masks[warpgroup].empty[mask_turn.stage]);
            mask_turn.next();
        }
        if (guarded) view.hide(s, j * BN, LATE ? 1 : p.scale);
        bool grown = online.template raise<true>(s, factor, scale);
        online.template exponentials<true>(s, scale);
        // The compiler moves a wait up to the last branch: here it comes after the exponentials.
        if constexpr (!START) {
            if (grown) {
                products_done();
                if (!first) online.rescale(result, factor);
            } else {
                products_done();
            }
            if (first) store_unit(ended);
        }
#pragma unroll
        for (int i = 0; i < BN / 16; ++i) c_to_a<T>(weights[i], s[0][2 * i], s[0][2 * i + 1]);
        if constexpr (!START) {
            if (first) release_stored();
        }
        fresh = first, before = tile, release_before = last;
    };
    if (IN_TURNS && warpgroup == WARPGROUPS - 1) next_turn();
    // Multiplies the last weights of a unit, which no other one follows at once.
    auto flush = [&] {
        wait_values();
        wgmma_begin();
        multiply_values();
        products_done();
        store_unit(online);
        release_stored();
        started = false;
    };
    int base = 0, tiles = 0;
    Turn<2> hand;
#pragma unroll 1
    for (;;) {
        const Item work = take(hand);
        // After these the compiler knows that the lanes agree.
        int count = shuffle(work.count, 0), begin = shuffle(work.begin, 0);
        if (count < 0) break;
        int all = shuffle(work.end, 0), skipped = tiles;
        each_unit(work, count, base, warpgroup, [&](int u, int first, int seen) {
            bool last = u + WARPGROUPS >= count;
            int n = base + u, slot = n / WARPGROUPS % SLOTS, j = begin, end = shuffle(seen, 0);
            // Tiles in between are seen whole by all rows.
            int whole = LATE ? shuffle(decoder.whole(work, first, BN), 0) : 0, clear = 0;
            if constexpr (LATE && MASK != FREE)
                clear = shuffle((decoder.first_key(work, first + units.rows - 1) + BN - 1) / BN, 0);
            Stages<SLOTS>& of = queries[warpgroup];
            of.full[slot].wait(n / WARPGROUPS / SLOTS % 2);
            unsigned at = qs + (warpgroup * SLOTS + slot) * QUERIES;
            left = wgmma_rows(at);
            if constexpr (REGISTERS) {
#pragma unroll
                for (int i = 0; i < HEAD / 16; ++i)
                    load_matrices_x4(
                        held[i], at + i / 4 * slab_bytes(64) +
                                     swizzle<128>(warp * 16 + lane % 16, i % 4 * 2 + lane / 16));
                __syncwarp();
                release(of.empty[slot]);
            }
            view.template set<PACK>(p, work.keys, work.diagonal, mask, work.batch, work.head,
                                    first + warp * 16, work.rows);
            int shift = tiles - begin;
            auto guarded = [&](int tile) { return tile >= whole || tile < clear; };
            auto keep_place = [&] {
                __syncwarp();
                if (lane == 0) {
                    waiting[threadIdx.x / 32] = work;
                    waiting[threadIdx.x / 32].first = first;
                    waiting[threadIdx.x / 32].number = work.number + u;
                    waiting[threadIdx.x / 32].begin = slot;
                }
                __syncwarp();
            };
            // One copy of a step's code serves all tiles of narrow heads, whose short units would
            // wait for instructions. The loop of wide heads has no registers left for it.
            constexpr bool NARROW = HEAD < 96;
            bool opening = started && NARROW;
            if (!opening) {
                if (!NARROW && started) step(Is<false>(), true, shift + j, j, guarded(j), last);
                else step(Is<true>(), true, shift + j, j, guarded(j), last);
                keep_place();
                started = true, ++j;
            }
#pragma unroll 1
            for (; j < end; ++j, opening = false) {
                step(Is<false>(), opening, shift + j, j, guarded(j), last);
                if (opening) keep_place();
            }
            if constexpr (!REGISTERS && !BOXES) release(of.empty[slot]);
            if (last) skipped = shift + end;
        });
        base += count, tiles += all - begin;
        // A product that waits for the next unit keeps its stage, which the tiles to skip may need.
        if (started && tiles - 1 - before >= STAGES) flush();
        // Tiles that only rows of other warpgroups see.
#pragma unroll 1
        for (; skipped < tiles; ++skipped) {
            int stage = skipped % STAGES, parity = skipped / STAGES % 2;
            keys.full[stage].wait(parity);
            my_turn();
            next_turn();
            __syncwarp();
            release(keys.empty[stage]);
            values.full[stage].wait(parity);
            __syncwarp();
            release(values.empty[stage]);
        }
    }
    if (started) flush();
}
