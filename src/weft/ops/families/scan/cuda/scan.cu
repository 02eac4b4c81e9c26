// Scans along the last dimension of [rows, n], and along the middle one of [outer, n, inner].
//
// T is the type of x, C of the arithmetic, O of y. Numbers of elements and vectors run in the
// direction of the scan: with REVERSE from the end. With EXCLUSIVE a result does not include its
// own element. States are joined in an order that depends on sizes alone: results do not depend on
// timing. scan.py defines GROUP and DEEP.
#include <weft/block.cuh>
#include <weft/convert.cuh>

#include "../../../core/cuda/operations.cuh"

using namespace weft;

// A row as vectors of V that begin at multiples of their size. The first and the last one may reach
// out of the row; what is outside reads as no element and is not written.
template <class T, class C, class O, template <class> class Operation, int V, bool REVERSE,
          bool EXCLUSIVE>
struct Row {
    using Op = Operation<C>;
    const T* x;
    O* y;
    long long n, chunks;
    int lead;  // elements from the first vector's begin to the row's

    __device__ Row(const T* x, O* y, long long n) : x(x), y(y), n(n) {
        lead = int(reinterpret_cast<size_t>(x) / sizeof(T) % V);
        chunks = (n + lead + V - 1) / V;
    }
    __device__ long long place(long long chunk) const {
        return (REVERSE ? chunks - 1 - chunk : chunk) * V - lead;
    }
    __device__ bool inside(long long chunk) const {
        return place(chunk) >= 0 && place(chunk) + V <= n;
    }
    __device__ static constexpr int slot(int j) { return REVERSE ? V - 1 - j : j; }

    __device__ Vector<T, V> get(long long chunk) const {
        long long at = place(chunk);
        if (inside(chunk)) return load<V>(x + at);
        Vector<T, V> v;
#pragma unroll
        for (int j = 0; j < V; j++)
            v[j] = at + j >= 0 && at + j < n ? x[at + j] : to<T>(Op::none());
        return v;
    }
    __device__ static C all(const Vector<T, V>& v) {
        C s = to<C>(v[slot(0)]);
#pragma unroll
        for (int j = 1; j < V; j++) s = Op::join(s, to<C>(v[slot(j)]));
        return s;
    }
    // The results of a vector, which `left` precedes.
    __device__ static Vector<O, V> results(const Vector<T, V>& v, C left) {
        Vector<O, V> out;
#pragma unroll
        for (int j = 0; j < V; j++) {
            C next = Op::join(left, to<C>(v[slot(j)]));
            out[slot(j)] = to<O>(EXCLUSIVE ? left : next);
            left = next;
        }
        return out;
    }
    // Can results be stored as vectors? That is the same for all vectors that are inside the row.
    __device__ bool straight() const {
        return reinterpret_cast<size_t>(y - lead) % alignof(Vector<O, V>) == 0;
    }
    __device__ void put(long long chunk, const Vector<O, V>& out) const {
        long long at = place(chunk);
        if (inside(chunk) && straight()) {
            store_whole(y + at, out);
            return;
        }
#pragma unroll
        for (int j = 0; j < V; j++)
            if (at + j >= 0 && at + j < n) y[at + j] = out[j];
    }
};

// K vectors of each of LANES lanes: lane l of step k holds vector first + k * LANES + l, so that
// neighbours read neighbours. With WHOLE most threads have all their vectors inside the row, and
// look at that once.
template <class R, class T, class C, int V, int LANES, int K, bool WHOLE>
struct RegisterTile {
    using Op = typename R::Op;
    Vector<T, V> v[K];
    C left[K];  // what precedes the vector among those of these lanes

    __device__ bool whole(const R& row, long long first) const {
        return WHOLE && row.inside(first) && row.inside(first + (K - 1) * LANES);
    }
    __device__ void get(const R& row, long long first) {
        if (whole(row, first)) {
#pragma unroll
            for (int k = 0; k < K; k++)
                v[k] = load<V>(row.x + row.place(first + k * LANES)), opaque(v[k]);
        } else {
#pragma unroll
            for (int k = 0; k < K; k++) v[k] = row.get(first + k * LANES), opaque(v[k]);
        }
    }
    // Finds `left`; returns the state of all elements of these lanes.
    __device__ C scan() {
        int lane = threadIdx.x % LANES;
        C carry = Op::none();
#pragma unroll
        for (int k = 0; k < K; k++) {
            C up = inclusive_scan<LANES>(R::all(v[k]), Op::join);
            C before = shuffle_up<LANES>(up, 1);
            left[k] = lane ? Op::join(carry, before) : carry;
            carry = Op::join(carry, shuffle<LANES>(up, LANES - 1));
        }
        return carry;
    }
    __device__ void put(const R& row, long long first, C start) {
        bool all = whole(row, first) && row.straight();
#pragma unroll
        for (int k = 0; k < K; k++) {
            opaque(v[k]);
            auto out = R::results(v[k], Op::join(start, left[k]));
            if (all) store_whole(row.y + row.place(first + k * LANES), out);
            else row.put(first + k * LANES, out);
        }
    }
};

// G threads hold a row: a part of a warp, a warp, or a block.
template <class T, class C, class O, template <class> class Operation, int V, bool REVERSE,
          bool EXCLUSIVE, int G, int K>
__global__ void __launch_bounds__(G <= 32 ? 128 : G,
                                  (sizeof(C) > 4 ? 512 : 1024) / (G <= 32 ? 128 : G))
    rows(const T* x, O* y, long long count, int n, long long stride) {
    using R = Row<T, C, O, Operation, V, REVERSE, EXCLUSIVE>;
    constexpr int BLOCK = G <= 32 ? 128 : G, LANES = G < 32 ? G : 32;
    long long row = blockIdx.x * (long long)(BLOCK / G) + threadIdx.x / G;
    R r(x + row * stride, y + row * n, row < count ? n : 0);
    int lane = threadIdx.x % LANES, warp = threadIdx.x % G / LANES,
        first = warp * (LANES * K) + lane;
    RegisterTile<R, T, C, V, LANES, K, (G > 32)> tile_regs;
    tile_regs.get(r, first);
    C all = tile_regs.scan(), start = R::Op::none();
    if constexpr (G > 32) {
        __shared__ C sums[G / 32];
        if (lane == 0) sums[warp] = all;
        __syncthreads();
        start = warp_reduce(lane < warp ? sums[lane] : start, R::Op::join);
    }
    tile_regs.put(r, first, start);
}

// The state that a block publishes for others: a value in 64-bit words, with 32 of its bits and a
// mark in each, so that a reader never takes half of a value for the whole. Words are zero until
// they are published.
template <class C>
struct Status {
    static constexpr int WORDS = sizeof(C) / 4;
    unsigned long long* words;

    __device__ Status at(long long i) const { return {words + i * WORDS}; }
    __device__ void publish(C value) const {
        unsigned bits[WORDS];
        memcpy(bits, &value, sizeof(C));
#pragma unroll
        for (int w = 0; w < WORDS; w++) store_relaxed(words + w, 1ull << 32 | bits[w]);
    }
    __device__ bool poll(C& value) const {
        unsigned bits[WORDS];
        bool there = true;
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            unsigned long long word = load_relaxed(words + w);
            bits[w] = unsigned(word), there = there && word >> 32;
        }
        memcpy(&value, bits, sizeof(C));
        return there;
    }
};

// Waits until every lane that wants a value has it. All lanes of a warp take part.
template <class C>
__device__ void wait(Status<C> from, bool wanted, C& value) {
    while (__any_sync(~0u, wanted && !from.poll(value))) __nanosleep(100);
}

// Long rows: each block scans a tile and waits for the state before it. Tiles are in groups of
// GROUP. A tile joins the states of the tiles before it in its group, and the state of all groups
// before, which the last tile of the group before publishes. (A look back that stops at whatever is
// known first is as fast, but rounds differently from call to call.) Blocks start in the order of
// their numbers, so that the blocks that a block waits for are running. States are in `state`, or
// behind the first of `counters`, which the last block clears.
template <class T, class C, class O, template <class> class Operation, int V, bool REVERSE,
          bool EXCLUSIVE, int G, int K>
__global__ void __launch_bounds__(G, 2)
    tiles(const T* x, O* y, void* state, int* counters, long long n, long long stride, int tiles,
          int groups) {
    using R = Row<T, C, O, Operation, V, REVERSE, EXCLUSIVE>;
    using Op = typename R::Op;
    __shared__ C sums[G / 32];
    __shared__ C earlier;
    long long row = blockIdx.x / tiles;
    int tile = blockIdx.x % tiles, group = tile / GROUP, lane = threadIdx.x % 32,
        warp = threadIdx.x / 32;
    auto* words = static_cast<unsigned long long*>(counters ? counters + 2 : state);
    R r(x + row * stride, y + row * n, n);
    long long first = (tile * (long long)(G / 32) + warp) * (32 * K) + lane;
    RegisterTile<R, T, C, V, 32, K, true> tile_regs;
    tile_regs.get(r, first);
    C all = tile_regs.scan();
    if (lane == 0) sums[warp] = all;
    __syncthreads();
    if (warp == 0) {
        Status<C> status = Status<C>{words}.at(row * (tiles + groups)), totals = status.at(tiles);
        C own = warp_reduce(lane < G / 32 ? sums[lane] : Op::none(), Op::join);
        if (lane == 0) status.at(tile).publish(own);
        C before = Op::none();
        for (int t = group * GROUP + lane; __any_sync(~0u, t < tile); t += 32) {
            C value = Op::none();
            wait(status.at(t < tile ? t : 0), t < tile, value);
            if (t < tile) before = Op::join(before, value);
        }
        before = warp_reduce(before, Op::join);
        if (group) {
            C total;
            wait(totals.at(group - 1), true, total);
            before = Op::join(total, before);
        }
        if (lane == 0) {
            if (tile % GROUP == GROUP - 1) totals.at(group).publish(Op::join(before, own));
            earlier = before;
        }
    }
    __syncthreads();
    C start = warp_reduce(lane < warp ? sums[lane] : Op::none(), Op::join);
    tile_regs.put(r, first, Op::join(earlier, start));
    if (counters && is_last_block(counters, gridDim.x)) {
        int count = gridDim.x / tiles * (tiles + groups) * Status<C>::WORDS;
        for (int i = threadIdx.x; i < count; i += G) words[i] = 0;
    }
}

// Along the middle of [outer, n, inner], in groups of V neighbours along `inner`: a warp has W
// lanes for groups side by side and 32 / W lanes along n, with DEEP neighbours each. `warps` of a
// block's 8 warps follow each other along n, the rest are side by side. The block walks along n, or
// along its part of n. With FOLD it only finds the state of its part; without, the states of the
// parts before it are in `found`.
template <class T, class C, class O, template <class> class Operation, int V, bool REVERSE,
          bool EXCLUSIVE, int W, bool FOLD>
__global__ void __launch_bounds__(256)
    columns(const T* x, O* y, C* found, long long outer, long long n, long long inner,
            long long stride, long long step, int warps, int parts, long long each) {
    using Op = Operation<C>;
    constexpr int D = 32 / W;
    __shared__ Vector<C, V> sums[2][8][W];
    int part = blockIdx.x % parts;
    int w = threadIdx.x % W, d = threadIdx.x % 32 / W, warp = threadIdx.x / 32,
        along = warp % warps;
    long long group = (blockIdx.x / parts * (8ll / warps) + warp / warps) * W + w,
              groups = inner / V;
    bool there = group < outer * groups;
    long long row = group / groups, column = group % groups * V;
    x += row * stride + column, y += row * n * inner + column,
        found += row * parts * inner + column;
    Vector<C, V> carry;
#pragma unroll
    for (int j = 0; j < V; j++) carry[j] = Op::none();
    // Joins the totals of all warps along n to `carry`, and of those before this one to `start`.
    auto unite = [&](int turn, const Vector<C, V>& total, Vector<C, V>& start) {
        if (d == 0) sums[turn][warp][w] = total;
        __syncthreads();
        for (int k = 0; k < warps; k++) {
            Vector<C, V> one = sums[turn][warp - along + k][w];
#pragma unroll
            for (int j = 0; j < V; j++) {
                if (k < along) start[j] = Op::join(start[j], one[j]);
                carry[j] = Op::join(carry[j], one[j]);
            }
        }
    };
    if (!FOLD && part) {  // its threads share the parts before
        Vector<C, V> before = carry, unused = carry;
        if (there)
            for (int p = along * D + d; p < part; p += warps * D)
#pragma unroll
                for (int j = 0; j < V; j++) before[j] = Op::join(before[j], found[p * inner + j]);
#pragma unroll
        for (int j = 0; j < V; j++) before[j] = strided_reduce<W>(before[j], Op::join);
        unite(1, before, unused);
    }
    long long end = min(n, (part + 1) * each);
    int turn = 0;
    for (long long base = part * each; base < end; base += warps * D * DEEP, turn ^= 1) {
        long long i = base + (along * D + d) * DEEP;
        auto place = [&](int r) { return REVERSE ? n - 1 - (i + r) : i + r; };
        Vector<T, V> v[DEEP];
#pragma unroll
        for (int r = 0; r < DEEP; r++) {
            if (there && i + r < end) {
                v[r] = load<V>(x + place(r) * step);
            } else {
#pragma unroll
                for (int j = 0; j < V; j++) v[r][j] = to<T>(Op::none());
            }
        }
        Vector<C, V> left, total;
#pragma unroll
        for (int j = 0; j < V; j++) {
            C up = to<C>(v[0][j]);
#pragma unroll
            for (int r = 1; r < DEEP; r++) up = Op::join(up, to<C>(v[r][j]));
            up = strided_scan<W>(up, Op::join);
            left[j] = D > 1 ? shuffle_up(up, W) : Op::none();
            if (d == 0) left[j] = Op::none();
            total[j] = D > 1 ? shuffle(up, (D - 1) * W + w) : up;
        }
        Vector<C, V> start = carry;
        unite(turn, total, start);  // two sets of sums: the next turn writes the other one
        if constexpr (!FOLD) {
#pragma unroll
            for (int j = 0; j < V; j++) start[j] = Op::join(start[j], left[j]);
#pragma unroll
            for (int r = 0; r < DEEP; r++) {
                Vector<O, V> out;
#pragma unroll
                for (int j = 0; j < V; j++) {
                    C next = Op::join(start[j], to<C>(v[r][j]));
                    out[j] = to<O>(EXCLUSIVE ? start[j] : next);
                    start[j] = next;
                }
                if (there && i + r < end) store_whole(y + place(r) * inner, out);
            }
        }
    }
    if (FOLD && there && along == 0 && d == 0)
#pragma unroll
        for (int j = 0; j < V; j++) found[part * inner + j] = carry[j];
}

// The same for a few elements along n: a thread scans V neighbouring columns by itself.
template <class T, class C, class O, template <class> class Operation, int V, bool REVERSE,
          bool EXCLUSIVE, int N>
__global__ void __launch_bounds__(256)
    short_columns(const T* x, O* y, long long groups, int n, long long inner, long long stride,
                  long long step) {
    using Op = Operation<C>;
    long long group = blockIdx.x * 256ll + threadIdx.x, beside = inner / V;
    if (group >= groups) return;
    long long row = group / beside, column = group % beside * V;
    x += row * stride + column, y += row * n * inner + column;
    auto place = [&](int i) { return REVERSE ? n - 1 - i : i; };
    Vector<T, V> tile_regs[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < n) tile_regs[i] = load<V>(x + place(i) * step);
    Vector<C, V> sum;
#pragma unroll
    for (int j = 0; j < V; j++) sum[j] = Op::none();
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (i >= n) break;
        Vector<O, V> out;
#pragma unroll
        for (int j = 0; j < V; j++) {
            C next = Op::join(sum[j], to<C>(tile_regs[i][j]));
            out[j] = to<O>(EXCLUSIVE ? sum[j] : next);
            sum[j] = next;
        }
        store_whole(y + place(i) * inner, out);
    }
}
