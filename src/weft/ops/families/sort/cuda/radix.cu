// Long rows: a radix sort that reads and writes every element once for each 8 bits of the keys.
//
// `count_digits` counts all digits of a row at once. A pass then moves a tile of elements per block
// to their places by one digit. A tile learns how many equal digits precede it from the tiles
// before it: decoupled look-back (Merrill and Garland, "Single-pass parallel prefix scan with
// decoupled look-back", 2016; Adinets and Merrill, "Onesweep", 2022).
#include <weft/block.cuh>

#include "keys.cuh"
#include "rank.cuh"
#include "rows.cuh"

// counts[row][digit of the key][value] of zeros. A row has `parts` blocks. A block counts in
// several copies, so that fewer lanes add to one address.
template <class T>
__global__ void __launch_bounds__(256) count_digits(const T* x, int* counts, Rows r, int parts) {
    using U = typename Keys<T>::U;
    constexpr int DIGITS = sizeof(T), AHEAD = sizeof(T) < 4 ? 8 : 4, COPIES = 4;
    __shared__ int sums[DIGITS * BINS * COPIES];
    Keys<T> keys(r.descending);
    long long row = blockIdx.x / parts, part = blockIdx.x % parts;
    long long each = (r.n + parts - 1) / parts, end = min(r.n, (part + 1) * each);
    const T* from = x + x_base(r, row);
    for (int i = threadIdx.x; i < DIGITS * BINS * COPIES; i += 256) sums[i] = 0;
    __syncthreads();
    auto add = [&](U key) {
#pragma unroll
        for (int d = 0; d < DIGITS; d++) {
            int bin = d * BINS + keys.digit(key, 8 * d);
            atomicAdd(&sums[bin * COPIES + threadIdx.x % COPIES], 1);
        }
    };
    long long i = part * each + threadIdx.x;
    for (; i + (AHEAD - 1) * 256 < end; i += AHEAD * 256) {
        U key[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) key[a] = keys.of(from[(i + a * 256) * r.x_step]);
#pragma unroll
        for (int a = 0; a < AHEAD; a++) add(key[a]);
    }
    for (; i < end; i += 256) add(keys.of(from[i * r.x_step]));
    __syncthreads();
    for (int b = threadIdx.x; b < DIGITS * BINS; b += 256) {
        int sum = 0;
#pragma unroll
        for (int c = 0; c < COPIES; c++) sum += sums[b * COPIES + (c + threadIdx.x) % COPIES];
        if (sum) atomicAdd(&counts[row * DIGITS * BINS + b], sum);
    }
}

// What tiles publish, in one word of type S: two bits that say what it is, and a count.
template <class S>
struct Status {
    static constexpr int SHIFT = 8 * sizeof(S) - 2;
    static constexpr S TILE = S(1) << SHIFT;  // the count of a tile
    static constexpr S SUM = S(2) << SHIFT;  // the count of a tile and of all before it
    static constexpr S COUNT = TILE - 1;

    // Publishes the count of a tile; returns the sum of the tiles before it. Words of neighbouring
    // tiles are `pitch` apart. All lanes of a warp take part.
    static __device__ S look_back(S* own, S count, long long tile, int pitch) {
        store_relaxed(own, (tile ? TILE : SUM) | count);
        S before = 0;
        const S* at = own - pitch;
        bool looking = tile > 0;
        while (__any_sync(~0u, looking)) {
            S word = looking ? load_relaxed(at) : S(0);
            if (word) {
                before += word & COUNT;
                looking = !(word & SUM);
                at -= pitch;
            }
            if (!__any_sync(~0u, word != 0)) __nanosleep(20);
        }
        if (tile) store_relaxed(own, SUM | (before + count));
        return before;
    }
};

// A pass over digit `pass`. Elements are read from x until a pass has moved them, then from one of
// the two buffers. A pass before the last one that would move nothing, since the digit is the same
// in the whole row, is left out. Blocks take tiles in the order of their start, so that the tiles
// that a block waits for are under way. INDEXED: the indices of elements move with them.
template <class T, class S, bool LAST, bool INDEXED, int WARPS, int ITEMS>
__global__ void __launch_bounds__(32 * WARPS)
    move_tiles(const T* x, T* values, long long* indices, void* keys_0, int* indices_0,
               void* keys_1, int* indices_1, const int* counts, void* states, int* tickets, Rows r,
               int tiles, int pass) {
    using U = typename Keys<T>::U;
    constexpr int THREADS = 32 * WARPS, TILE = THREADS * ITEMS, DIGITS = sizeof(T);
    extern __shared__ __align__(16) unsigned char memory[];
    U* moved_keys = reinterpret_cast<U*>(memory);
    auto* moved_indices = reinterpret_cast<unsigned*>(memory);
    __shared__ RankMemory<WARPS> ranks;
    __shared__ unsigned to[BINS], sums[BINS / 32];
    __shared__ int ticket, idle;
    Keys<T> keys(r.descending);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) {
        int number = lane == 0 ? atomicAdd(&tickets[pass], 1) : 0;
        number = shuffle(number, 0);
        long long row = number / tiles;
        U one = keys.of(x[x_base(r, row)]);
        // The digits that are the same in the whole row.
        bool same = false;
        if (lane < DIGITS) {
            int there = counts[(row * DIGITS + lane) * BINS + keys.digit(one, 8 * lane)];
            same = unsigned(there) == unsigned(r.n);
        }
        unsigned found = __ballot_sync(~0u, same);
        if (lane == 0) ticket = number, idle = int(found);
    }
    __syncthreads();
    if (!LAST && idle >> pass & 1) return;
    int turn = __popc(~idle & ((1 << pass) - 1));  // passes that have moved elements
    long long row = ticket / tiles, tile = ticket % tiles;
    long long begin = tile * TILE, start_of_row = row * r.n;
    int there = int(min((long long)TILE, r.n - begin)), base = warp * 32 * ITEMS + lane;
    U key[ITEMS];
    unsigned digit[ITEMS], rank[ITEMS], start;
    if (turn == 0) {
        const T* from = x + x_base(r, row) + begin * r.x_step;
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            int i = base + j * 32;
            key[j] = i < there ? keys.of(from[i * r.x_step]) : Keys<T>::ALL;
        }
    } else {
        const U* from = static_cast<const U*>(turn % 2 ? keys_0 : keys_1) + start_of_row + begin;
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            int i = base + j * 32;
            key[j] = i < there ? from[i] : Keys<T>::ALL;
        }
    }
#pragma unroll
    for (int j = 0; j < ITEMS; j++) digit[j] = keys.digit(key[j], 8 * pass);
    unsigned count = rank_digits<WARPS, ITEMS>(digit, rank, ranks, start);
#pragma unroll
    for (int j = 0; j < ITEMS; j++) moved_keys[rank[j]] = key[j];
    unsigned before = 0, all = 0;
    if (threadIdx.x < BINS) {
        S* own = static_cast<S*>(states) + (ticket * (long long)BINS + threadIdx.x);
        before = unsigned(Status<S>::look_back(own, count, tile, BINS));
        all = unsigned(counts[(row * DIGITS + pass) * BINS + threadIdx.x]);
    }
    unsigned smaller = sum_before(all, sums);
    if (threadIdx.x < BINS) to[threadIdx.x] = smaller + before - start;
    __syncthreads();
    long long y = y_base(r, row);
    unsigned place[ITEMS];
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        int i = threadIdx.x + j * THREADS;
        if (i >= there) continue;
        U one = moved_keys[i];
        place[j] = to[keys.digit(one, 8 * pass)] + i;
        if constexpr (LAST) {
            long long at = place[j] - r.first;
            if (values && at >= 0 && at < r.count) values[y + at * r.y_step] = keys.value(one);
        } else {
            static_cast<U*>(turn % 2 ? keys_1 : keys_0)[start_of_row + place[j]] = one;
        }
    }
    if constexpr (!INDEXED) return;
    // Indices follow after the keys: both at once would take too many registers.
    const int* order = (turn % 2 ? indices_0 : indices_1) + start_of_row + begin;
    unsigned index[ITEMS];
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        int i = base + j * 32;
        index[j] = turn == 0 ? unsigned(begin + i) : i < there ? unsigned(order[i]) : 0u;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < ITEMS; j++) moved_indices[rank[j]] = index[j];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        int i = threadIdx.x + j * THREADS;
        if (i >= there) continue;
        if constexpr (LAST) {
            long long at = place[j] - r.first;
            if (indices && at >= 0 && at < r.count) indices[y + at * r.y_step] = moved_indices[i];
        } else {
            (turn % 2 ? indices_1 : indices_0)[start_of_row + place[j]] = int(moved_indices[i]);
        }
    }
}
