// The k first elements of the order, of each tile of a row: candidates for those of the row.
#include "keys.cuh"
#include "rank.cuh"
#include "rows.cuh"

// Finds the k-th key of a tile digit by digit, from the highest, and writes the elements up to it
// in the order of their indices: k pairs of a key and an index, or all of a smaller tile. `kept`
// pairs are those of a row. The elements are those of x, or such pairs.
template <class T, int WARPS, int ITEMS>
__global__ void __launch_bounds__(32 * WARPS)
    select(const T* x, const void* given_keys, const int* given_indices, void* found_keys,
           int* found_indices, Rows r, int tiles, long long kept, int k) {
    using U = typename Keys<T>::U;
    constexpr int THREADS = 32 * WARPS, TILE = THREADS * ITEMS;
    constexpr int COPIES = 4;  // of the counts, so that fewer lanes add to one address
    __shared__ int counts[BINS * COPIES], smaller[WARPS], equal[WARPS], chosen, wanted, size;
    __shared__ unsigned sums[BINS / 32];
    Keys<T> keys(r.descending);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, base = warp * 32 * ITEMS + lane;
    long long row = blockIdx.x / tiles, tile = blockIdx.x % tiles, begin = tile * TILE;
    int there = int(min((long long)TILE, r.n - begin));
    const T* from = x + x_base(r, row) + begin * r.x_step;
    const U* ready = static_cast<const U*>(given_keys) + row * r.n + begin;
    U key[ITEMS];
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        int i = base + j * 32;
        key[j] = Keys<T>::ALL;
        if (i < there) key[j] = given_keys ? ready[i] : keys.of(from[i * r.x_step]);
    }
    // The elements with compared key & mask below `bound`, and `left` of those where it is equal.
    U mask = 0, bound = 0;
    int left = min(k, there);
#pragma unroll 1
    for (int shift = Keys<T>::BITS - 8; shift >= 0; shift -= 8) {
        for (int b = threadIdx.x; b < BINS * COPIES; b += THREADS) counts[b] = 0;
        __syncthreads();
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            U one = keys.compared(key[j]);
            if (base + j * 32 < there && U(one & mask) == bound)
                atomicAdd(&counts[(unsigned(one >> shift) & 255u) * COPIES + lane % COPIES], 1);
        }
        __syncthreads();
        int count = 0;
        if (threadIdx.x < BINS)
            for (int c = 0; c < COPIES; c++) count += counts[threadIdx.x * COPIES + c];
        int before = int(sum_before(unsigned(count), sums));
        if (threadIdx.x < BINS && before < left && left <= before + count)
            chosen = threadIdx.x, wanted = left - before, size = count;
        __syncthreads();
        mask |= U(U(255) << shift), bound |= U(U(chosen) << shift), left = wanted;
        if (size == left) break;  // all of these
    }
    int below = 0, same = 0;
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        U one = keys.compared(key[j]) & mask;
        bool inside = base + j * 32 < there;
        below += __popc(__ballot_sync(~0u, inside && one < bound));
        same += __popc(__ballot_sync(~0u, inside && one == bound));
    }
    if (lane == 0) smaller[warp] = below, equal[warp] = same;
    __syncthreads();
    below = same = 0;
    for (int w = 0; w < warp; w++) below += smaller[w], same += equal[w];
    long long to = row * kept + tile * k;
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        int i = base + j * 32;
        U one = keys.compared(key[j]) & mask;
        bool is_below = i < there && one < bound, is_same = i < there && one == bound;
        unsigned first = __ballot_sync(~0u, is_below), second = __ballot_sync(~0u, is_same);
        unsigned lanes = (1u << lane) - 1;
        int ties = same + __popc(second & lanes);
        int at = below + __popc(first & lanes) + min(ties, left);
        if (is_below || (is_same && ties < left)) {
            static_cast<U*>(found_keys)[to + at] = key[j];
            long long place = begin + i;
            found_indices[to + at] = given_keys ? given_indices[row * r.n + place] : int(place);
        }
        below += __popc(first), same += __popc(second);
    }
}
