// Groups of equal elements in a sorted row.
#include <weft/block.cuh>
#include <weft/convert.cuh>

using namespace weft;

// Numbers the groups: values[g] is the first element of group g, counts[g] (of zeros) their number,
// inverse[order[i]] the group of element i. Tiles look back as those of radix.cu; `states` has a
// ticket and a word of each tile, all zeros. `inverse` and `counts` may be null. C is the type to
// compare in: NaN is a group of its own.
template <class T, class C>
__global__ void __launch_bounds__(256)
    number_groups(const T* sorted, const long long* order, T* values, long long* inverse,
                  long long* counts, long long* total, long long* states, long long n) {
    constexpr int ITEMS = 8, TILE = 256 * ITEMS;
    constexpr unsigned long long OF_TILE = 1ull << 62, SUM = 2ull << 62, COUNT = OF_TILE - 1;
    __shared__ long long ticket, before;
    __shared__ int sums[8];
    auto* words = reinterpret_cast<unsigned long long*>(states);
    if (threadIdx.x == 0) ticket = (long long)atomicAdd(words, 1ull);
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long tile = ticket, first = tile * TILE + warp * (32 * ITEMS) + lane;
    auto differ = [&](long long i) {  // is i the first of a group?
        return i == 0 || i == n || to<C>(sorted[i]) != to<C>(sorted[i - 1]);
    };
    int groups = 0, up_to[ITEMS];
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        long long i = first + j * 32;
        unsigned starts = __ballot_sync(~0u, i < n && differ(i));
        up_to[j] = groups + __popc(starts & (~0u >> (31 - lane)));
        groups += __popc(starts);
    }
    if (lane == 0) sums[warp] = groups;
    __syncthreads();
    int all = 0, own = 0;
#pragma unroll
    for (int w = 0; w < 8; w++) {
        if (w == warp) own = all;
        all += sums[w];
    }
    if (warp == 0) {
        unsigned long long* word = words + 1 + tile;
        if (lane == 0) store_relaxed(word, (tile ? OF_TILE : SUM) | all);
        // 32 tiles at a time: those from the last sum on count.
        unsigned long long sum = 0;
        for (long long back = tile - 1; back >= 0; back -= 32) {
            unsigned long long there = back < lane ? SUM : 0;  // before the first: of no tiles
            while (__any_sync(~0u, !there)) {
                if (!there) there = load_relaxed(words + 1 + back - lane);
                if (__any_sync(~0u, !there)) __nanosleep(20);
            }
            unsigned complete = __ballot_sync(~0u, (there & SUM) != 0);
            bool counted = !complete || lane <= __ffs(complete) - 1;
            unsigned long long part = counted ? there & COUNT : 0;
            sum += warp_sum(part);
            if (complete) break;
        }
        if (lane == 0) {
            if (tile) store_relaxed(word, SUM | (sum + all));
            before = (long long)sum;
            if ((tile + 1) * TILE >= n) *total = (long long)sum + all;
        }
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        long long i = first + j * 32;
        if (i >= n) break;
        long long group = before + own + up_to[j] - 1;
        bool start = differ(i);
        if (start) values[group] = sorted[i];
        if (counts) {
            auto* count = reinterpret_cast<unsigned long long*>(counts + group);
            if (start) atomicAdd(count, static_cast<unsigned long long>(-i));
            if (differ(i + 1)) atomicAdd(count, static_cast<unsigned long long>(i + 1));
        }
        if (inverse) inverse[order[i]] = group;
    }
}
