// A call of attention: sizes, strides and options, as attention/problem.py packs them.
#pragma once

// Strides in elements. The elements of a row are contiguous.
struct Strides {
    long long batch, head, row;
    __device__ long long at(int b, int h, int r) const { return b * batch + h * head + r * row; }
};

struct MaskStrides {
    long long batch, head, row, key;
};

// `group` query heads share a head of keys. `pack` of them (1, or all of a group) are rows of the
// same tiles: packed row r is query r / pack of head r % pack. Blocks work on `together` heads at a
// time, the longest tiles of a causal mask first.
struct Problem {
    Strides q, k, v, o, lse;
    MaskStrides mask;
    int batch, heads, group, rows, keys, depth,
        width;  // depth: of query and key; width: of value and result
    int causal, pack, parts, together;
    float scale;  // of scores, in powers of two: times log2(e)
    unsigned keep;      // of 65,536 weights that dropout keeps
    float keep_scale;  // of these
    int single;  // rows of floats are no whole vectors
    int left, right;  // keys before and after a query that it sees: 0 after it if causal
};

// Where the random numbers of dropout begin, as philox.cuh takes it.
struct Random {
    const long long* state;
    long long seed, offset;
};

// Keys and values in pages: page `table[batch][n]` has the keys from n * size on. The strides of k
// and v are then those of pages, heads and keys of a page.
struct Pages {
    const int* table;
    int size, most;  // keys of a page; pages of a sequence
};

// The sequences of one batch element. Ragged batches have cumulative lengths, and pages have the
// numbers of keys as `starts_k` alone; then a causal mask ends at the last query and the last key.
// Otherwise it starts at the first of both, as torch defines it.
struct Span {
    int row0, rows, key0, keys, diagonal;  // query i sees keys up to i + diagonal

    __device__ Span(const Problem& p, const int* starts_q, const int* starts_k, int batch) {
        row0 = 0, rows = p.rows, key0 = 0, keys = p.keys, diagonal = 0;
        if (!starts_q && starts_k) keys = starts_k[batch], diagonal = keys - rows;
        if (!starts_q) return;
        row0 = starts_q[batch], rows = starts_q[batch + 1] - row0;
        key0 = starts_k[batch], keys = starts_k[batch + 1] - key0;
        diagonal = keys - rows;
    }
};

// Tiles of BN keys for BM packed rows from `first` on, of `rows`: those from `begin` up to `end`
// have a key that some row sees. In tiles up to `whole`, all rows see all keys that no mask hides.
template <int BM, int BN>
struct KeyTiles {
    int begin, end, whole;

    __device__ KeyTiles(const Problem& p, const Span& span, int first, int rows) {
        int own = first / p.pack + span.diagonal,
            behind = (min(first + BM, rows) - 1) / p.pack + span.diagonal;
        int seen = max(0, min(span.keys, behind + 1 + p.right)),
            all = max(0, min(span.keys, own + 1 + p.right));
        end = (seen + BN - 1) / BN, begin = min(end, max(0, own - p.left) / BN), whole = all / BN;
    }
    // Leaves one of `parts` parts of them.
    __device__ void take(int part, int parts) {
        int each = (end - begin + parts - 1) / parts;
        begin = min(end, begin + part * each), end = min(end, begin + each);
    }
};

// Which tile of which head this block works on; `tile` counts from the first row. A launch has
// `all` heads from `start` on, counted over the batch, and `index` is the head's number among them.
struct Place {
    int tile, head, batch, part, number, index;

    __device__ Place(const Problem& p, int tiles, int heads)
        : Place(p, tiles, heads, 0, p.batch * heads) {}
    __device__ Place(const Problem& p, int tiles, int heads, int start, int all,
                     int id = blockIdx.x) {
        part = id % p.parts, id /= p.parts, number = id;
        int first = id / (p.together * tiles) * p.together, size = min(p.together, all - first);
        id -= first * tiles;
        tile = tiles - 1 - id / size;
        index = first + id % size;
        head = (start + index) % heads, batch = (start + index) / heads;
    }

    // This block's share of `count` tiles: from `begin` up to `end`.
    __device__ void share(const Problem& p, int count, int& begin, int& end) const {
        int each = (count + p.parts - 1) / p.parts;
        begin = min(count, part * each), end = min(count, begin + each);
    }

    // Where sums of floats begin, of this block's part and head: [part][head][row][depth], for
    // `all` heads.
    __device__ long long partial(int all, int rows, int depth) const {
        return (static_cast<long long>(part) * all + index) * rows * depth;
    }
};
