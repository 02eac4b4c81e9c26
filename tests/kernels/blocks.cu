// Block-wide algorithms of CUB.
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

__global__ void reduce(const float* x, float* sums, float* maxima, int n) {
    using Reduce = cub::BlockReduce<float, 128>;
    __shared__ typename Reduce::TempStorage storage;
    int i = blockIdx.x * 128 + threadIdx.x, valid = min(128, n - (int)blockIdx.x * 128);
    float v = i < n ? x[i] : 0.f;
    float sum = Reduce(storage).Sum(v, valid);
    __syncthreads();
    float top = Reduce(storage).Reduce(v, [](float a, float b) { return fmaxf(a, b); }, valid);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum, maxima[blockIdx.x] = top;
}

__global__ void scan(const int* x, int* inclusive, int* exclusive, int* totals) {
    using Scan = cub::BlockScan<int, 128>;
    __shared__ typename Scan::TempStorage storage;
    int items[2], out[2], total, base = (blockIdx.x * 128 + threadIdx.x) * 2;
    items[0] = x[base], items[1] = x[base + 1];
    Scan(storage).InclusiveSum(items, out);
    inclusive[base] = out[0], inclusive[base + 1] = out[1];
    __syncthreads();
    Scan(storage).ExclusiveSum(items, out, total);
    exclusive[base] = out[0], exclusive[base + 1] = out[1];
    if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

__global__ void sort(float* keys, int* values) {
    using Sort = cub::BlockRadixSort<float, 64, 2, int>;
    __shared__ typename Sort::TempStorage storage;
    float k[2];
    int v[2], base = blockIdx.x * 128;
    cub::LoadDirectBlocked(threadIdx.x, keys + base, k);
    cub::LoadDirectBlocked(threadIdx.x, values + base, v);
    Sort(storage).SortDescending(k, v);
    for (int j = 0; j < 2; j++)
        keys[base + 2 * threadIdx.x + j] = k[j], values[base + 2 * threadIdx.x + j] = v[j];
}
