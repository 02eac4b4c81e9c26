// The distinct values of at most 16 bits among many elements: a bit for each value that occurs.
#include <weft/warp.cuh>

#include "keys.cuh"

enum : int { VALUES = 1 << 16, WORDS = VALUES / 32 };

// Calls `take` with the key of each element of a block's share.
template <int THREADS, class T, class Take>
__device__ void each_key(const T* x, long long step, long long n, Take take) {
    constexpr int AHEAD = 8;
    Keys<T> keys(false);
    long long stride = (long long)gridDim.x * THREADS;
    for (long long i = blockIdx.x * (long long)THREADS + threadIdx.x; i < n; i += AHEAD * stride) {
        T value[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (i + a * stride < n) value[a] = x[(i + a * stride) * step];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (i + a * stride < n) take(keys.of(value[a]));
    }
}

// Sets the bits of `present` of the keys that occur, and adds the number of NaN to *nans. Both are
// zeros before. A block collects its bits in shared memory.
template <class T>
__global__ void __launch_bounds__(512)
    mark(const T* x, long long step, int* present, int* nans, long long n) {
    __shared__ unsigned bits[WORDS];
    for (int w = threadIdx.x; w < WORDS; w += 512) bits[w] = 0;
    __syncthreads();
    int own_nans = 0;
    each_key<512>(x, step, n, [&](auto key) {
        if (Keys<T>::FLOATING && key == Keys<T>::ALL) {
            own_nans++;
        } else {
            unsigned bit = 1u << key % 32, *word = &bits[key / 32];
            // Most elements find their bit set: no atomic operation for these.
            if (!(*(volatile unsigned*)word & bit)) atomicOr(word, bit);
        }
    });
    if (own_nans) atomicAdd(nans, own_nans);
    __syncthreads();
    for (int w = threadIdx.x; w < WORDS; w += 512)
        if (bits[w]) atomicOr(present + w, int(bits[w]));
}

// The same with the number of elements of each key, in `tallies` of zeros. Blocks of one part count
// the PART keys from blockIdx.y * PART on in shared memory. With 32 COPIES each lane has its own,
// and a bank of its own.
template <class T, int PART, int COPIES>
__global__ void __launch_bounds__(1024)
    tally(const T* x, long long step, int* tallies, int* present, int* nans, long long n) {
    extern __shared__ int counts[];
    for (int k = threadIdx.x; k < PART * COPIES; k += 1024) counts[k] = 0;
    __syncthreads();
    int own_nans = 0;
    unsigned start = blockIdx.y * PART;
    each_key<1024>(x, step, n, [&](auto key) {
        if (Keys<T>::FLOATING && key == Keys<T>::ALL) own_nans += start == 0;
        else if (unsigned(key) - start < PART)
            atomicAdd(&counts[(key - start) * COPIES + threadIdx.x % COPIES], 1);
    });
    if (own_nans) atomicAdd(nans, own_nans);
    __syncthreads();
    for (int k = threadIdx.x; k < PART; k += 1024) {  // a warp has the keys of one word
        int count = 0;
        for (int c = 0; c < COPIES; c++) count += counts[k * COPIES + (c + threadIdx.x) % COPIES];
        unsigned key = start + k, bits = __ballot_sync(~0u, count != 0);
        if (count) atomicAdd(tallies + key, count);
        if (bits && key % 32 == 0) atomicOr(present + key / 32, int(bits));
    }
}

// Writes the values whose bits are set, in ascending order, and as many NaN as there were; *total
// is the number of both. Every block counts the bits and writes the values of one key for each of
// its threads, and a part of the NaN. 0.0 and -0.0 are one value. `tallies` and `counts` may be
// null.
template <class T>
__global__ void __launch_bounds__(1024)
    list(const int* present, const int* tallies, const int* nans, T* values, long long* counts,
         long long* total) {
    constexpr int EACH = WORDS / 1024;
    __shared__ int sums[32], places[WORDS];
    __shared__ unsigned words[WORDS];
    Keys<T> keys(false);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, own = 0;
    unsigned word[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        int w = threadIdx.x * EACH + k;
        word[k] = present[w];
        if (Keys<T>::FLOATING && w == keys.minus_zero() / 32) {
            constexpr unsigned ZERO = Keys<T>::TOP;
            bool both = present[ZERO / 32] >> (ZERO % 32) & 1;
            if (both) word[k] &= ~(1u << keys.minus_zero() % 32);
        }
        own += __popc(word[k]);
    }
    int up_to = weft::inclusive_scan(own, weft::Plus());
    if (lane == 31) sums[warp] = up_to;
    __syncthreads();
    int all = 0, place = up_to - own;
#pragma unroll
    for (int w = 0; w < 32; w++) {
        if (w < warp) place += sums[w];
        all += sums[w];
    }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        int w = threadIdx.x * EACH + k;
        words[w] = word[k], places[w] = place;
        place += __popc(word[k]);
    }
    __syncthreads();
    unsigned key = blockIdx.x * 1024 + threadIdx.x;
    if (key < VALUES && words[key / 32] >> key % 32 & 1) {
        place = places[key / 32] + __popc(words[key / 32] & ((1u << key % 32) - 1));
        values[place] = keys.value(key);
        if (counts) {
            bool zero = Keys<T>::FLOATING && key == Keys<T>::TOP;
            counts[place] = tallies[key] + (zero ? tallies[keys.minus_zero()] : 0);
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) *total = all + *nans;
    if constexpr (Keys<T>::FLOATING) {
        T nan;
        unsigned short bits = 0x7fff;
        memcpy(&nan, &bits, sizeof(T));
        for (long long i = blockIdx.x * 1024ll + threadIdx.x; i < *nans; i += gridDim.x * 1024ll) {
            values[all + i] = nan;
            if (counts) counts[all + i] = 1;
        }
    }
}
