// Tiles that TMA has swizzled are read by the tensor cores where they lie.
// map: a = A[64, 64] swizzle 128
// map: b = B[64, 64] swizzle 128
#include <weft/tma.cuh>
#include <weft/wgmma.cuh>

using T = __nv_bfloat16;

__global__ void __launch_bounds__(128)
    product(const __grid_constant__ weft::TensorMap a, const __grid_constant__ weft::TensorMap b,
            float* C, int k) {
    extern __shared__ unsigned char bytes[];
    __shared__ weft::Barrier full;
    unsigned left = weft::slab_aligned(weft::shared_address(bytes));
    unsigned right = left + weft::tile_bytes(64, 64);
    if (threadIdx.x == 0) {
        full.init(1);
        weft::publish_barriers();
    }
    __syncthreads();
    float c[8][4];
    for (int step = 0; step < k; ++step) {
        if (threadIdx.x == 0) {
            full.arrive_expecting(2 * weft::tile_bytes(64, 64));
            weft::load_box(left, a, full, 64 * step, 0);
            weft::load_box(right, b, full, 0, 64 * step);
        }
        full.wait(step % 2);
        weft::wgmma_begin();
        for (int e = 0; e < 64; e += 16)
            weft::wgmma<T, false, true>(c, weft::wgmma_rows(left + 2 * e),
                                        weft::wgmma_columns<64>(right + 128 * e), step + e > 0);
        weft::wgmma_commit();
        weft::wgmma_wait<0>();
        __syncthreads();  // all have read the tiles, which the next copy overwrites
    }
    weft::wgmma_results(c);
    int first = threadIdx.x / 32 * 16;
    for (int n = 0; n < 8; ++n)
        for (int i = 0; i < 4; ++i)
            C[(first + weft::c_row(i)) * 64 + n * 8 + weft::c_column(i)] = c[n][i];
}
