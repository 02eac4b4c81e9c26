// Calls every function of weft/wgmma_int8.cuh.
#include <weft/wgmma_int8.cuh>

using namespace weft;

// Copies `rows` rows of 128 bytes into a tile.
__device__ void fill_tile(unsigned tile, const signed char* x, int rows) {
    for (int i = threadIdx.x; i < rows * 8; i += 128)
        copy_async<16>(tile + swizzle<128>(i / 8, i % 8), x + i * 16);
}

// c[64][8 N] = a[64][128] b[8 N][128]'.
template <int N>
__global__ void __launch_bounds__(128) product(const signed char* a, const signed char* b, int* c) {
    extern __shared__ unsigned char memory[];
    unsigned left = slab_aligned(shared_address(memory)), right = left + slab_bytes(64);
    fill_tile(left, a, 64);
    fill_tile(right, b, N * 8);
    wait_all_copies();
    publish_tiles();
    __syncthreads();
    int sums[N][4];
    wgmma_begin();
    for (int k = 0; k < 128; k += 32)
        wgmma_int8(sums, wgmma_rows(left + k), wgmma_rows(right + k), k > 0);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_results(sums);
    for (int n = 0; n < N; ++n)
        for (int i = 0; i < 4; ++i)
            c[(warp_index() * 16 + c_row(i)) * N * 8 + n * 8 + c_column(i)] = sums[n][i];
}

// One product of 8 N columns, of tiles that are nowhere.
template <int N>
__global__ void widths(int* c) {
    int sums[N][4] = {};
    wgmma_int8(sums, wgmma_rows(0), wgmma_rows(1024), true);
    c[threadIdx.x] = sums[N - 1][3];
}
