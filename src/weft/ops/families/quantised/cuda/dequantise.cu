// The weight as a matrix of T, for products with many tokens and for gradients.
#include "problem.cuh"

// EACH: weights that a thread converts: eight where rows are aligned, or one.
template <Weights F, class T, class S, int EACH>
__global__ void __launch_bounds__(256)
    dequantised(const void* weight, const S* scales, const S* zeros, T* to_all,
                const __grid_constant__ QuantisedProblem p) {
    long long i = (blockIdx.x * 256ll + threadIdx.x) * EACH;
    if (i >= (long long)p.N * p.K) return;
    int n = i / p.K, k = i % p.K;
    auto values = read_weights<F, EACH>(row_of(weight, p, n), k);
    Group<S> group;
    group.read(scales, zeros, p, n, group_of(k, p));
#pragma unroll
    for (int j = 0; j < EACH; ++j) values[j] = group.sum(values[j], 1);
    store(to_all + i, from_floats<T>(values));
}
