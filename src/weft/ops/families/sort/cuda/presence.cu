// The distinct values of at most 16 bits among many elements: a bit for each value that occurs.
#include <weft/warp.cuh>

#include "keys.cuh"

enum : int { VALUES = 1 << 16, WORDS = VALUES / 32 };

// Sets the bits of `present` of the keys that occur, and adds the number of NaN to *nans. Both are
// zeros before. A block collects its bits in shared memory.
template <class T>
__global__ void __launch_bounds__(512)
    mark(const T* x, long long step, int* present, long long* nans, long long n) {
    constexpr int AHEAD = 8;
    __shared__ unsigned bits[WORDS];
    Keys<T> keys(false);
    for (int w = threadIdx.x; w < WORDS; w += 512) bits[w] = 0;
    __syncthreads();
    unsigned long long own_nans = 0;
    long long stride = (long long)gridDim.x * 512;
    for (long long i = blockIdx.x * 512ll + threadIdx.x; i < n; i += AHEAD * stride) {
        T value[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (i + a * stride < n) value[a] = x[(i + a * stride) * step];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (i + a * stride >= n) break;
            auto key = keys.of(value[a]);
            if (Keys<T>::FLOATING && key == Keys<T>::ALL) {
                own_nans++;
            } else {
                unsigned bit = 1u << key % 32, *word = &bits[key / 32];
                // Most elements find their bit set: no atomic operation for these.
                if (!(*(volatile unsigned*)word & bit)) atomicOr(word, bit);
            }
        }
    }
    if (own_nans) atomicAdd(reinterpret_cast<unsigned long long*>(nans), own_nans);
    __syncthreads();
    for (int w = threadIdx.x; w < WORDS; w += 512)
        if (bits[w]) atomicOr(present + w, int(bits[w]));
}

// The same with the number of elements of each key, in `tallies` of zeros. Blocks of one part count
// the PART keys from blockIdx.y * PART on in shared memory.
template <class T, int PART>
__global__ void __launch_bounds__(1024)
    tally(const T* x, long long step, int* tallies, int* present, long long* nans, long long n) {
    extern __shared__ int counts[];
    Keys<T> keys(false);
    for (int k = threadIdx.x; k < PART; k += 1024) counts[k] = 0;
    __syncthreads();
    unsigned long long own_nans = 0;
    unsigned start = blockIdx.y * PART;
    for (long long i = blockIdx.x * 1024ll + threadIdx.x; i < n; i += gridDim.x * 1024ll) {
        auto key = keys.of(x[i * step]);
        if (Keys<T>::FLOATING && key == Keys<T>::ALL) {
            own_nans += start == 0;
        } else if (unsigned(key) - start < PART) {
            atomicAdd(&counts[key - start], 1);
        }
    }
    if (own_nans) atomicAdd(reinterpret_cast<unsigned long long*>(nans), own_nans);
    __syncthreads();
    for (int k = threadIdx.x; k < PART; k += 1024) {
        if (!counts[k]) continue;
        unsigned key = start + k;
        atomicAdd(tallies + key, counts[k]);
        atomicOr(present + key / 32, 1 << key % 32);
    }
}

// Writes the values whose bits are set, in ascending order, and as many NaN as there were; *total
// is the number of both. Every block counts the bits, the first one writes the values, and all
// write the NaN. 0.0 and -0.0 are one value. `tallies` and `counts` may be null.
template <class T>
__global__ void __launch_bounds__(1024)
    list(const int* present, const int* tallies, const long long* nans, T* values,
         long long* counts, long long* total) {
    constexpr int EACH = WORDS / 1024;
    __shared__ int sums[32];
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
    if (blockIdx.x == 0) {
#pragma unroll
        for (int k = 0; k < EACH; k++)
            for (unsigned left = word[k]; left; left &= left - 1) {
                unsigned key = (threadIdx.x * EACH + k) * 32 + __ffs(left) - 1;
                values[place] = keys.value(key);
                if (counts) {
                    bool zero = Keys<T>::FLOATING && key == Keys<T>::TOP;
                    counts[place] = tallies[key] + (zero ? tallies[keys.minus_zero()] : 0);
                }
                place++;
            }
        if (threadIdx.x == 0) *total = all + *nans;
    }
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
