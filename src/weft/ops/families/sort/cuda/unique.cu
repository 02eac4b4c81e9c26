// Groups of equal elements in a sorted row.
#include <weft/block.cuh>
#include <weft/convert.cuh>

using namespace weft;

// Returns the end of the elements from `low` on that equal `value`: at most n. Every lane of a warp
// calls it. Lanes look at neighbours first, then at the last elements of 32 parts of what is left.
template <class C, class T>
__device__ long long end_of_group(const T* sorted, C value, long long low, long long n) {
    long long high = n;  // the end is one of low to high
    for (bool near = true; low < high; near = false) {
        long long part = near ? 1 : (high - low + 31) / 32;
        long long last = low + (lane_index() + 1) * part - 1;
        unsigned others = __ballot_sync(~0u, last >= high || to<C>(sorted[last]) != value);
        low += (others ? __ffs(others) - 1 : 32) * part;
        if (others) high = min(high, low + part - 1);
    }
    return low;
}

// Publishes the number of groups that start in a tile; returns that of all tiles before it. The
// words of tiles are zeros before the launch. Every lane of one warp calls it.
__device__ long long groups_before(unsigned long long* words, long long tile, unsigned own) {
    constexpr unsigned long long OF_TILE = 1ull << 62, SUM = 2ull << 62, COUNT = OF_TILE - 1;
    int lane = lane_index();
    if (lane == 0) store_relaxed(words + tile, (tile ? OF_TILE : SUM) | own);
    // 32 tiles at a time: those from the last sum on count.
    unsigned long long sum = 0;
    for (long long back = tile - 1; back >= 0; back -= 32) {
        unsigned long long there = back < lane ? SUM : 0;  // before the first: of no tiles
        while (__any_sync(~0u, !there)) {
            if (!there) there = load_relaxed(words + back - lane);
            if (__any_sync(~0u, !there)) __nanosleep(20);
        }
        unsigned complete = __ballot_sync(~0u, (there & SUM) != 0);
        bool counted = !complete || lane <= __ffs(complete) - 1;
        unsigned long long part = counted ? there & COUNT : 0;
        sum += warp_sum(part);
        if (complete) break;
    }
    if (tile && lane == 0) store_relaxed(words + tile, SUM | (sum + own));
    return (long long)sum;
}

// Numbers the groups: values[g] is the first element of group g, counts[g] their number,
// inverse[order[i]] the group of element i, *total the number of groups. `inverse` and `counts` may
// be null. C is the type to compare in: NaN is a group of its own. ALONE: one block has all
// elements. Others look back as those of radix.cu; `states` has a ticket and a word of each tile,
// all zeros.
template <class T, class C, int WARPS, int ITEMS, bool ALONE>
__global__ void __launch_bounds__(32 * WARPS)
    number_groups(const T* sorted, const long long* order, T* values, long long* inverse,
                  long long* counts, long long* total, void* states, long long n) {
    constexpr int TILE = 32 * WARPS * ITEMS;
    __shared__ long long ticket, before, end;
    __shared__ int sums[WARPS];
    __shared__ unsigned short starts[TILE];  // where the groups start that start in this tile
    auto* words = static_cast<unsigned long long*>(states);
    if (threadIdx.x == 0) {
        ticket = ALONE ? 0 : (long long)atomicAdd(words, 1ull);
        before = 0, end = n;
    }
    __syncthreads();
    int lane = lane_index(), warp = warp_index(), first = warp * (32 * ITEMS) + lane;
    long long tile = ALONE ? 0 : ticket, base = tile * TILE;
    unsigned is_start = 0;
    int groups = 0, up_to[ITEMS];
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        long long i = base + first + j * 32;
        bool start = i < n && (i == 0 || to<C>(sorted[i]) != to<C>(sorted[i - 1]));
        unsigned mask = __ballot_sync(~0u, start);
        is_start |= start << j;
        up_to[j] = groups + __popc(mask & (~0u >> (31 - lane)));
        groups += __popc(mask);
    }
    if (lane == 0) sums[warp] = groups;
    __syncthreads();
    int all = 0, own = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        if (w == warp) own = all;
        all += sums[w];
    }
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        up_to[j] += own;
        if (is_start >> j & 1) starts[up_to[j] - 1] = first + j * 32;
    }
    if constexpr (!ALONE) {
        long long next = min(base + TILE, n);
        if (warp == 0) {
            long long sum = groups_before(words + 1, tile, all);
            if (lane == 0) before = sum;
        } else if (warp == 1 && counts && all) {
            long long found = end_of_group(sorted, to<C>(sorted[next - 1]), next, n);
            if (lane == 0) end = found;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0 && base + TILE >= n) *total = before + all;
    for (int g = threadIdx.x; g < all; g += 32 * WARPS) {
        long long start = base + starts[g];
        values[before + g] = sorted[start];
        if (counts) counts[before + g] = (g + 1 < all ? base + starts[g + 1] : end) - start;
    }
    if (!inverse) return;
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        long long i = base + first + j * 32;
        if (i < n) inverse[order[i]] = before + up_to[j] - 1;
    }
}
