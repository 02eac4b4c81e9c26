// The distinct elements of few: one block compares all pairs, without a sort.
#include "keys.cuh"

// values[g] is an element of group g in ascending order, counts[g] their number, inverse[i] the
// group of element i, *total the number of groups. `inverse` and `counts` may be null. Every NaN is
// a group of its own. n is at most the number of threads.
template <class T, int THREADS>
__global__ void __launch_bounds__(THREADS)
    unique_pairs(const T* x, long long step, T* values, long long* inverse, long long* counts,
                 long long* total, int n) {
    using U = typename Keys<T>::U;
    Keys<T> keys(false);
    __shared__ U key[THREADS];
    __shared__ bool is_first[THREADS];
    int i = threadIdx.x;
    T own{};
    if (i < n) {
        own = x[i * step];
        key[i] = keys.compared(keys.of(own));
    }
    __syncthreads();
    // All NaN have the greatest key; an integer may have it too.
    bool nan = Keys<T>::FLOATING && i < n && key[i] == Keys<T>::ALL;
    int equal = 0, earlier = 0;
    if (i < n) {
        for (int j = 0; j < n; j++) {
            equal += key[j] == key[i];
            earlier += j < i && key[j] == key[i];
        }
        is_first[i] = nan || earlier == 0;
    }
    __syncthreads();
    int group = nan ? earlier : 0;
    if (i < n)
        for (int j = 0; j < n; j++) group += is_first[j] && key[j] < key[i];
    if (i < n && is_first[i]) {
        values[group] = own;
        if (counts) counts[group] = nan ? 1 : equal;
    }
    if (i < n && inverse) inverse[i] = group;
    int groups = __syncthreads_count(i < n && is_first[i]);
    if (i == 0) *total = groups;
}
