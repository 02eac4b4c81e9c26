// The steps of a warpgroup of attention by TMA, one ahead of those whose scores it weighs.
#pragma once
#include "tma_items.cuh"

// The place of a warpgroup among items: unit `u` of `count` is next, of an item with `all` tiles.
// Items before it had `base` units and `tiles` tiles; `passed` tiles are behind this warpgroup, and
// it has had `items` items and `units` units.
struct Cursor {
    int base, count, u, tiles, all, passed, units, items;
};

// A tile of a unit, in a word: flags, the places of the tile and of the unit in rings of up to four
// with the parity of their phases, and the number of the tile in the unit.
struct Step {
    int bits;
    static constexpr int FIRST = 1, LAST = 2, HIDES = 4, STORES = 8, TILE = 4, UNIT = 8,
                         NUMBER = 12;

    __device__ static Step at(int tile, int unit, bool last, bool hides) {
        return {FIRST | (last ? LAST : 0) | (hides ? HIDES : 0) | tile % 8 << TILE |
                unit % 8 << UNIT};
    }
    __device__ static Step none() { return {0xf << UNIT}; }
    __device__ bool is_none() const { return bits == 0xf << UNIT; }
    __device__ bool first() const { return bits & FIRST; }
    __device__ bool last() const { return bits & LAST; }
    __device__ bool hides() const { return bits & HIDES; }
    __device__ bool stores() const { return bits & STORES; }
    __device__ int tile() const { return bits >> TILE & 7; }
    __device__ int unit() const { return bits >> UNIT & 7; }
    __device__ int number() const { return bits >> NUMBER; }
    __device__ Step storing() const { return {bits | STORES}; }
    __device__ Step next(int whole) const {
        int kept = bits & (LAST | 7 << UNIT), next = number() + 1;
        return {kept | (tile() + 1 & 7) << TILE | next << NUMBER | (next >= whole ? HIDES : 0)};
    }
};

// Finds the steps of a warpgroup. Each of its warps has a cursor and the places of its last PLACES
// units in shared memory: they are needed when units change, and registers are few.
template <int PACK, int BN, int WARPGROUPS, int STAGES, int SLOTS>
struct StepsAhead {
    static constexpr int PLACES = 4;
    static_assert(8 % (2 * STAGES) == 0 && 8 % (2 * SLOTS) == 0, "a step counts to 8");
    const Decoder<PACK>& decoder;
    Stages<2>& handed;
    const Item* next_items;
    Stages<STAGES>&keys, &values;
    Cursor& cursor;
    Item* places;
    int warpgroup;
    // The step ahead. Of its unit: tiles, and those that all of its rows see whole.
    Step ahead;
    int end, whole;

    __device__ bool first_lane() const { return threadIdx.x % 32 == 0; }
    __device__ void start() {
        if (first_lane()) cursor = Cursor{};
        __syncwarp();
    }
    __device__ const Item& place(int unit) const { return places[unit % PLACES]; }
    __device__ void open(Cursor& c, Item work) {
        int rows = decoder.units.rows, at = work.first + c.u * rows;
        end = shuffle(max(1, min(work.end, decoder.seen(work, at + rows, BN))), 0);
        whole = shuffle(decoder.whole(work, at, BN), 0);
        work.first = at, work.number += c.u, work.begin = c.units % SLOTS;
        if (first_lane()) places[c.units % PLACES] = work;
        bool last = c.u + WARPGROUPS >= c.count;
        ahead = Step::at(c.tiles, c.units, last, 0 >= whole);
        if (last) c.passed = c.tiles + end;
        ++c.units;
    }
    __device__ bool next_item(Cursor& c) {
        c.base += c.count, c.tiles += c.all;
        Turn<2> hand;
        hand.skip(c.items++ % 4);
        Item work = take_item(handed, next_items, hand);
        c.count = work.count, c.all = work.end, c.passed = c.tiles;
        c.u = (warpgroup + WARPGROUPS - c.base % WARPGROUPS) % WARPGROUPS;
        if (c.u < c.count) open(c, work);
        return c.u < c.count;
    }
    __device__ bool next_unit(Cursor& c) {
        Item work = place(c.units - 1);
        work.first -= c.u * decoder.units.rows, work.number -= c.u, c.u += WARPGROUPS;
        if (c.u < c.count) open(c, work);
        return c.u < c.count;
    }
    // Moves `ahead` to the next step. False if none follows at once: there is no more work, or
    // tiles that only others see come first.
    __device__ bool advance() {
        ahead = ahead.next(whole);
        if (ahead.number() < end) return true;
        Cursor c = cursor;
        __syncwarp();
        bool found = next_unit(c) || (c.passed == c.tiles + c.all && next_item(c));
        if (first_lane()) cursor = c;
        __syncwarp();
        return shuffle(found, 0) != 0;
    }
    // Finds a step where none has followed at once; false at the end of all work.
    __device__ bool find() {
        Cursor c = cursor;
        __syncwarp();
#pragma unroll 1
        while (shuffle(c.u >= c.count && c.count >= 0, 0)) {
#pragma unroll 1
            for (int left = shuffle(c.tiles + c.all - c.passed, 0); left > 0; --left, ++c.passed) {
                int stage = c.passed % STAGES, parity = c.passed / STAGES % 2;
                keys.full[stage].wait(parity);
                __syncwarp();
                if (first_lane()) keys.empty[stage].arrive();
                values.full[stage].wait(parity);
                __syncwarp();
                if (first_lane()) values.empty[stage].arrive();
            }
            next_item(c);
        }
        int count = c.count;
        if (first_lane()) cursor = c;
        __syncwarp();
        return shuffle(count, 0) >= 0;
    }
};
