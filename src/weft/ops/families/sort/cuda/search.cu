// Binary search of values in sorted sequences.
#include <weft/convert.cuh>

using namespace weft;

// Does the place of `value` come behind `element`? C is the type to compare in.
template <class C> __device__ bool behind(C element, C value, bool right) {
    return right ? !(element > value) : !(element >= value);  // as PyTorch, also for NaN
}

// The first of n places that `is_behind` does not hold for.
template <class N, class Behind> __device__ N first_place(N from, N to, Behind is_behind) {
    while (from < to) {
        N middle = from + (to - from) / 2;
        if (is_behind(middle)) from = middle + 1;
        else to = middle;
    }
    return from;
}

// Value v belongs to sequence v / m, of n elements; sequences are `pitch` apart, 0 if there is one.
// With SAMPLED, for one sequence without a sorter, blocks first search evenly spaced elements,
// which they have in shared memory.
template <class T, class C, class O, bool SAMPLED>
__global__ void __launch_bounds__(256)
    search(const T* sequence, const T* values, const long long* sorter, O* found, long long count,
           long long n, long long m, long long pitch, int right) {
    constexpr int SAMPLES = 1024;
    __shared__ C samples[SAMPLED ? SAMPLES : 1];
    long long step = (n + SAMPLES - 1) / SAMPLES, taken = step ? (n + step - 1) / step : 0;
    if constexpr (SAMPLED) {
        for (int s = threadIdx.x; s < taken; s += 256)
            samples[s] = to<C>(sequence[min((s + 1) * step, n) - 1]);
        __syncthreads();
    }
    for (long long v = blockIdx.x * 256ll + threadIdx.x; v < count; v += gridDim.x * 256ll) {
        C value = to<C>(values[v]);
        long long start = 0, end = n, base = pitch ? v / m * pitch : 0;
        if constexpr (SAMPLED) {
            int s =
                first_place(0, int(taken), [&](int i) { return behind(samples[i], value, right); });
            start = min(s * step, n), end = min((s + 1) * step, n);
            if (start < end) end--;  // the sample itself is known
        }
        found[v] = O(first_place(start, end, [&](long long i) {
            return behind(to<C>(sequence[base + (sorter ? sorter[base + i] : i)]), value, right);
        }));
    }
}
