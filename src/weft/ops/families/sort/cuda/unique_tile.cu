// Groups of equal elements in a sorted row that one block holds.
#include <weft/convert.cuh>
#include <weft/warp.cuh>

// As `number_groups` of unique.cu, without buffers of zeros and look-back. n is at most ITEMS times
// the number of threads.
template <class T, class C, int ITEMS>
__global__ void __launch_bounds__(1024)
    number_tile(const T* sorted, const long long* order, T* values, long long* inverse,
                long long* counts, long long* total, int n) {
    __shared__ int sums[32], starts[ITEMS * 1024 + 1];
    int first = threadIdx.x * ITEMS, lane = threadIdx.x % 32, warp = threadIdx.x / 32, own = 0;
    bool start[ITEMS];
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        int i = first + j;
        start[j] = i < n && (i == 0 || weft::to<C>(sorted[i]) != weft::to<C>(sorted[i - 1]));
        own += start[j];
    }
    int up_to = weft::inclusive_scan(own, weft::Plus());
    if (lane == 31) sums[warp] = up_to;
    __syncthreads();
    int all = 0, group = up_to - own - 1;
#pragma unroll
    for (int w = 0; w < 32; w++) {
        if (w < warp) group += sums[w];
        all += sums[w];
    }
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        int i = first + j;
        if (i >= n) break;
        if (start[j]) {
            values[++group] = sorted[i];
            starts[group] = i;
        }
        if (inverse) inverse[order[i]] = group;
    }
    if (threadIdx.x == 0) *total = all, starts[all] = n;
    if (!counts) return;
    __syncthreads();
    for (int g = threadIdx.x; g < all; g += 1024) counts[g] = starts[g + 1] - starts[g];
}
