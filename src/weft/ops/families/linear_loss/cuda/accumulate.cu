// Sums over chunks: of products that other kernels have rounded, and of columns.
#include <weft/block.cuh>
#include <weft/early_launch.cuh>
#include "sums.cuh"

// Adds n products to their sums.
template <class T, int STAGE>
__global__ void __launch_bounds__(256) add(const T* product, T* out, int* rest, long long n) {
    take_turn();
    Sums<T> sums{out, rest};
    for (long long i = (blockIdx.x * 256ll + threadIdx.x) * 8; i < n; i += gridDim.x * 2048ll) {
        if (i + 8 <= n) {
            Vector<float, 8> f = to_floats(load<8>(product + i));
            float values[8];
#pragma unroll
            for (int k = 0; k < 8; k++) values[k] = f[k];
            Eight old{};
            if constexpr (STAGE != BEGIN) old = sums.get(i);
            put_sums<STAGE>(sums, i, values, old);
            continue;
        }
        for (long long k = i; k < n; k++) {
            float sum = (STAGE == BEGIN ? 0 : sums.get_one(k)) + to<float>(product[k]);
            if constexpr (STAGE == END) out[k] = to<T>(sum);
            else sums.put_one(k, sum);
        }
    }
}

// Adds the columns of a chunk of `rows` rows to their sums. A block has 64 columns, and each of its
// warps every eighth row.
template <class T>
__global__ void __launch_bounds__(256)
    add_columns(const T* x, float* sums, T* out, int rows, int columns, long long pitch, int first,
                int last) {
    take_turn();
    __shared__ float2 found[8][32];
    int warp = warp_index(), lane = lane_index(), column = blockIdx.x * 64 + lane * 2;
    float2 sum = make_float2(0, 0);
    if (column < columns)
#pragma unroll 8
        for (int row = warp; row < rows; row += 8) {
            Vector<T, 2> pair = load<2>(x + row * pitch + column);  // the pitch is even
            sum.x += to<float>(pair[0]), sum.y += to<float>(pair[1]);
        }
    found[warp][lane] = sum;
    __syncthreads();
    int own = blockIdx.x * 64 + threadIdx.x;
    if (threadIdx.x >= 64 || own >= columns) return;
    float all = first ? 0 : sums[own];
    for (int i = 0; i < 8; i++) {
        float2 pair = found[i][threadIdx.x / 2];
        all += threadIdx.x % 2 ? pair.y : pair.x;
    }
    if (last) out[own] = to<T>(all);
    else sums[own] = all;
}
