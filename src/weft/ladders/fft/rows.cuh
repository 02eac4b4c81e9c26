// Transforms of rows by the stages of weft.ops.fft.
#pragma once
#include "../../ops/families/fft/cuda/stockham.cuh"

template <class S, class M>
__device__ __forceinline__ void transform_rows(const float* x, const float* staged, float* y,
                                               int rows) {
    extern __shared__ float2 shared[];
    Place at = place<S::T, M::C, false>();
    long long row = blockIdx.x * (long long)M::C + at.c;
    const float2* from = (const float2*)x + row * S::N;
    float2 *to = (float2*)y + row * S::N, v[S::REGS];
    elements<S, 0>(at.t, [&](int e, int i) { v[e] = row < rows ? from[i] : float2{0, 0}; });
    stages<S, M, false, false, false>(v, shared, (const float2*)staged);
    elements<S, S::COUNT - 1>(at.t, [&](int e, int i) {
        if (row < rows) to[i] = v[e];
    });
}
