// Calls every function of weft/wgmma.cuh.
#include <weft/barrier.cuh>
#include <weft/convert.cuh>
#include <weft/wgmma.cuh>

using namespace weft;

// Copies x[rows][columns] into a tile.
template <class T>
__device__ void fill_tile(unsigned tile, const T* x, int rows, int columns) {
    for (int i = threadIdx.x % 128; i < rows * columns / 8; i += 128) {
        int row = i / (columns / 8), c = i % (columns / 8) * 8;
        copy_async<16>(tile + c / 64 * slab_bytes(rows) + swizzle<128>(row, c / 8 % 8), x + i * 8);
    }
}

template <int N>
__device__ void store_product(float* c, const float (&sums)[N][4]) {
    int first = threadIdx.x % 128 / 32 * 16;
    for (int n = 0; n < N; ++n)
        for (int i = 0; i < 4; ++i)
            c[(first + c_row(i)) * N * 8 + n * 8 + c_column(i)] = sums[n][i];
}

// c[64][8 N] = a[64][64] b[64][8 N]. A lies as [m][k], or as [k][m] with A_COLUMNS; B as [n][k], or
// as [k][n] with B_COLUMNS.
template <class T, int N, bool A_COLUMNS, bool B_COLUMNS>
__global__ void __launch_bounds__(128) product(const T* a, const T* b, float* c) {
    constexpr int WIDTH = N * 8, B_ROWS = B_COLUMNS ? 64 : WIDTH;
    extern __shared__ unsigned char memory[];
    unsigned left = slab_aligned(shared_address(memory)), right = left + tile_bytes(64, 64);
    fill_tile(left, a, 64, 64);
    fill_tile(right, b, B_ROWS, B_COLUMNS ? WIDTH : 64);
    wait_all_copies();
    publish_tiles();
    __syncthreads();
    float sums[N][4];
    wgmma_begin();
    for (int k = 0; k < 64; k += 16) {
        auto from = wgmma_moved(A_COLUMNS ? wgmma_columns<64>(left) : wgmma_rows(left),
                                A_COLUMNS ? k * 128 : k * 2);
        auto to = B_COLUMNS ? wgmma_columns<B_ROWS>(right + k * 128) : wgmma_rows(right + k * 2);
        wgmma<T, A_COLUMNS, B_COLUMNS>(sums, from, to, k > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_results(sums);
    store_product(c, sums);
}

// c[64][64] = a[64][16] b[16][64], with A in registers: the second warpgroup copies B, and the
// first one multiplies.
template <class T>
__global__ void __launch_bounds__(256, 1) from_registers(const T* a, const T* b, float* c) {
    extern __shared__ unsigned char memory[];
    __shared__ Barrier full;
    unsigned right = slab_aligned(shared_address(memory));
    if (threadIdx.x == 0) full.init(128);
    __syncthreads();
    if (warpgroup_index() == 1) {
        fewer_registers<40>();
        fill_tile(right, b, 16, 64);
        full.arrive_after_copies();
        wait_all_copies();
        return;
    }
    more_registers<232>();
    unsigned left[4];
    const unsigned* words = reinterpret_cast<const unsigned*>(a);
    int first = warp_index() * 16 + lane_index() / 4, column = lane_index() % 4;
    for (int i = 0; i < 4; ++i) left[i] = words[(first + i % 2 * 8) * 8 + column + i / 2 * 4];
    float sums[8][4] = {};
    full.wait(0);
    publish_tiles();
    wgmma_begin();
    wgmma_left<T>(sums, left, wgmma_columns<16>(right));
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_results(sums);
    store_product(c, sums);
}

// Every width, for the compiler alone.
template <class T, int N>
__global__ void __launch_bounds__(128) widths(float* c, unsigned long long a) {
    float sums[N][4] = {};
    unsigned left[4] = {1, 2, 3, 4};
    wgmma_begin();
    wgmma<T>(sums, a, a, true);
    wgmma_left<T>(sums, left, a);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_results(sums);
    store_product(c, sums);
}
