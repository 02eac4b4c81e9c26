// Weight-only products for any dtype, any K and any alignment: a warp for each row of the weight
// and up to eight tokens, with sums in single precision.
#include "problem.cuh"

// EACH: weights and elements of x that a lane reads at once, eight where rows are aligned, or one.
// A group begins at a multiple of 32 of K, so that none of them has a part of such a read.
template <Weights F, class T, class S, int TOKENS, int EACH>
__global__ void __launch_bounds__(256)
    dots(const T* x, const void* weight, const S* scales, const S* zeros, const T* bias, T* y,
         const __grid_constant__ QuantisedProblem p) {
    wait_for_kernels();
    start_next_kernel();
    int n = blockIdx.x * 8 + warp_index(), first = block_index_yz() * TOKENS;
    if (n >= p.N) return;
    const unsigned char* row = row_of(weight, p, n);
    x += first * p.x_row;
    float sum[TOKENS] = {};
#pragma unroll 2
    for (int k = lane_index() * EACH; k < p.K; k += 32 * EACH) {
        auto q = read_weights<F, EACH>(row, k);
        Group<S> group;
        group.read(scales, zeros, p, n, group_of(k, p));
#pragma unroll
        for (int m = 0; m < TOKENS; ++m) {
            if (first + m >= p.M) break;
            Vector<float, EACH> of = to_floats(load<EACH>(x + m * p.x_row + k));
            float products = 0, ones = 0;
#pragma unroll
            for (int i = 0; i < EACH; ++i) products += of[i] * q[i], ones += of[i];
            sum[m] += group.sum(products, ones);
        }
    }
#pragma unroll
    for (int m = 0; m < TOKENS; ++m) {
        if (first + m >= p.M) break;
        sum[m] = warp_sum(sum[m]);
        if (lane_index() == m) finish(y, bias, p, first + m, n, sum[m]);
    }
}
