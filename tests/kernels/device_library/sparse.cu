// Calls every function of weft/sparse.cuh.
#include <weft/convert.cuh>
#include <weft/sparse.cuh>

using namespace weft;

// c[16][8] = a b[8][64]': `a` has 32 kept elements of each row, metadata a word for each lane.
template <class T>
__global__ void by_a_warp(const T* a, const unsigned* metadata, const T* b, float* c) {
    __shared__ __align__(128) T as[16 * 32], bs[8 * 64];
    for (int i = threadIdx.x; i < 512; i += 32) {
        as[swizzle<64>(i / 32, i % 32 / 8) / 2 + i % 8] = a[i];
        bs[swizzle<128>(i / 64, i % 64 / 8) / 2 + i % 8] = b[i];
    }
    __syncwarp();
    int lane = lane_index();
    unsigned left[4], right[4], word = metadata[lane];
    float sums[4] = {};
    load_matrices_x4(left, shared_address(as) + swizzle<64>(lane % 16, lane / 16));
    load_matrices_x4(right, shared_address(bs) + swizzle<128>(lane % 8, lane / 8));
    mma_sparse<T, 0>(sums, left, right, word);
    load_matrices_x4(left, shared_address(as) + swizzle<64>(lane % 16, 2 + lane / 16));
    load_matrices_x4(right, shared_address(bs) + swizzle<128>(lane % 8, 4 + lane / 8));
    mma_sparse<T, 1>(sums, left, right, word);
    for (int i = 0; i < 4; ++i) c[c_row(i) * 8 + c_column(i)] = sums[i];
}

// c[64][8 N] = a b[8 N][64]': `a` has 32 kept elements of each row, metadata a word for each
// thread.
template <class T, int N>
__global__ void __launch_bounds__(128)
    by_a_warpgroup(const T* a, const unsigned* metadata, const T* b, float* c) {
    extern __shared__ unsigned char memory[];
    unsigned left = slab_aligned(shared_address(memory)), right = left + 64 * 64;
    for (int i = threadIdx.x; i < 64 * 4; i += 128)
        copy_async<16>(left + swizzle<64>(i / 4, i % 4), a + i * 8);
    for (int i = threadIdx.x; i < N * 8 * 8; i += 128)
        copy_async<16>(right + swizzle<128>(i / 8, i % 8), b + i * 8);
    wait_all_copies();
    publish_tiles();
    __syncthreads();
    unsigned word = metadata[threadIdx.x];
    float sums[N][4];
    wgmma_begin();
    wgmma_sparse<T, 0>(sums, wgmma_rows_64(left), wgmma_rows(right), word, false);
    wgmma_sparse<T, 1>(sums, wgmma_rows_64(left + 32), wgmma_rows(right + 64), word, true);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_results(sums);
    for (int n = 0; n < N; ++n)
        for (int i = 0; i < 4; ++i)
            c[(warp_index() * 16 + c_row(i)) * N * 8 + n * 8 + c_column(i)] = sums[n][i];
}

// One product of 8 N columns, of tiles that are nowhere.
template <class T, int N>
__global__ void widths(float* c) {
    float sums[N][4] = {};
    wgmma_sparse<T, 0>(sums, wgmma_rows_64(0), wgmma_rows(1024), 0x44444444, true);
    c[threadIdx.x] = sums[N - 1][3];
}
