// Items of work of attention by TMA: some units of 64 queries of a head, which the warp that copies
// hands to the warpgroups that multiply; and the registers of both.
#pragma once
#include <weft/pipeline.cuh>
#include "problem.cuh"

STRUCT_UNITS;

// An item of work, as the warp that copies hands it to the others: `rows` are those of its head, or
// of packed heads, and those of the item begin with `first`. It has `count` units, or -1 as the end
// of all work, and tiles of keys from `begin` up to `end`.
struct Item {
    int batch, head, row0, first, rows, keys, diagonal, count, begin, end, part, number;
};

// The place of an item in the tensors, and its copy in shared memory.
template <int PACK>
struct Decoder {
    const Problem& p;
    const Units& units;

    __device__ int query(int row) const { return row / PACK; }
    // Tiles of `keys` keys with one that a row before `end` sees.
    __device__ int seen(const Item& x, int end, int keys) const {
        int last = query(min(end, x.rows) - 1) + x.diagonal + 1 + p.right;
        return (max(0, min(x.keys, last)) + keys - 1) / keys;
    }
    // Tiles whose last key all rows from `row` on see.
    __device__ int whole(const Item& x, int row, int keys) const {
        return max(0, min(x.keys, query(row) + x.diagonal + 1 + p.right)) / keys;
    }
    // The first key that a row sees.
    __device__ int first_key(const Item& x, int row) const {
        return max(0, query(row) + x.diagonal - p.left);
    }
    __device__ Item item(const int* starts_q, const int* starts_k, int id, int keys) const {
        Item x;
        x.count = -1;
        if (id >= units.items) return x;
        Place at(p, units.in_head, units.heads, 0, p.batch * units.heads, id);
        Span span(p, starts_q, starts_k, at.batch);
        int size = units.count * units.rows;
        x.batch = at.batch, x.head = at.head * PACK, x.part = at.part;
        x.row0 = span.row0, x.first = at.tile * size, x.rows = span.rows * PACK;
        x.keys = span.keys, x.diagonal = span.diagonal, x.number = at.number * units.count;
        x.count = max(0, min(units.count, (x.rows - x.first + units.rows - 1) / units.rows));
        int end = x.count ? seen(x, x.first + x.count * units.rows, keys) : 0;
        int hidden = min(end, first_key(x, x.first) / keys);  // by a window, from all rows
        at.share(p, end - hidden, x.begin, x.end);
        x.begin += hidden, x.end += hidden;
        if (x.count) x.end = max(x.end, x.begin + 1);  // rows that see no key have a hidden tile
        return x;
    }
};

// Registers of a thread after the warpgroup that copies has given some to the others. A block has
// those that it was launched with: if the others asked for more, they would wait forever.
template <int WARPGROUPS, int BLOCKS>
struct RegisterShares {
    static constexpr int THREADS = 128 * (WARPGROUPS + 1), EACH = 65536 / THREADS / BLOCKS,
                         LAUNCHED = (EACH < 255 ? EACH : 255) / 8 * 8,
                         COPYING = BLOCKS > 1        ? 32
                                   : WARPGROUPS == 2 ? 40
                                                     : 32,
                         COMPUTING = BLOCKS > 1 ? LAUNCHED + (LAUNCHED - COPYING) / WARPGROUPS
                                     : WARPGROUPS == 2 ? 232
                                                       : 160;
    static constexpr bool SHARED = WARPGROUPS > 1 || BLOCKS > 1;
    static_assert(!SHARED || COPYING + WARPGROUPS * COMPUTING <= (WARPGROUPS + 1) * LAUNCHED,
                  "the warpgroups need more registers than the block has");
};

// The next item of a warp that does not copy keys: `hand` is its turn.
__device__ inline Item take_item(Stages<2>& handed, const Item* next, Turn<2>& hand) {
    handed.wait_full(hand);
    Item work = next[hand.stage];
    __syncwarp();
    if (threadIdx.x % 32 == 0) handed.empty[hand.stage].arrive();
    hand.next();
    return work;
}
