// Rows that fit a block: a radix sort in shared memory, 8 bits of the keys in each pass.
#include "keys.cuh"
#include "rank.cuh"
#include "rows.cuh"

// One row per block. The elements are those of x, or pairs of a key and an index that `select` has
// left, in the order of their indices.
template <class T, int WARPS, int ITEMS>
__global__ void __launch_bounds__(32 * WARPS)
    sort_blocks(const T* x, const void* given_keys, const int* given_indices, T* values,
                long long* indices, Rows r) {
    using U = typename Keys<T>::U;
    constexpr int THREADS = 32 * WARPS, TILE = THREADS * ITEMS;
    extern __shared__ __align__(16) unsigned char memory[];
    U* sorted = reinterpret_cast<U*>(memory);
    auto* places = reinterpret_cast<unsigned short*>(sorted + TILE);
    __shared__ RankMemory<WARPS> ranks;
    Keys<T> keys(r.descending);
    long long row = blockIdx.x, from = x_base(r, row), to = y_base(r, row);
    int n = int(r.n), base = threadIdx.x / 32 * 32 * ITEMS + threadIdx.x % 32;
    const U* ready = given_keys ? static_cast<const U*>(given_keys) + row * n : nullptr;
    U key[ITEMS];
    unsigned place[ITEMS];
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        int i = base + j * 32;
        place[j] = i, key[j] = Keys<T>::ALL;  // what is outside comes last
        if (i < n) key[j] = ready ? ready[i] : keys.of(x[from + i * r.x_step]);
    }
#pragma unroll 1
    for (int shift = 0;; shift += 8) {
        unsigned digit[ITEMS], rank[ITEMS], start;
#pragma unroll
        for (int j = 0; j < ITEMS; j++) digit[j] = keys.digit(key[j], shift);
        rank_digits<WARPS, ITEMS>(digit, rank, ranks, start);
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            sorted[rank[j]] = key[j];
            places[rank[j]] = static_cast<unsigned short>(place[j]);
        }
        __syncthreads();
        if (shift + 8 >= Keys<T>::BITS) break;
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            key[j] = sorted[base + j * 32];
            place[j] = places[base + j * 32];
        }
    }
    for (int i = threadIdx.x; i < int(r.count); i += THREADS) {
        int found = int(r.first) + i, place = places[found];
        long long at = to + i * r.y_step;
        if (values) values[at] = keys.value(sorted[found]);
        if (indices) {
            if (given_indices) place = given_indices[row * n + place];
            indices[at] = unsigned(place);
        }
    }
}
