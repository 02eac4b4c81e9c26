// The places of an element in several operands of any strides.
#pragma once
#include <weft/problem.cuh>

using namespace weft;

// The dimensions, innermost first, and the strides of N operands; see walk.py.
template <class I, int RANK, int N>
struct Walk {
    I size[RANK], magic[RANK], shift[RANK], stride[N][RANK];

    // The places of element i of a row-major tensor of these sizes.
    __device__ void places(I i, I (&at)[N]) const {
#pragma unroll
        for (int o = 0; o < N; o++) at[o] = 0;
#pragma unroll
        for (int d = 0; d < RANK; d++) {
            I rest = d + 1 < RANK ? quotient(i, magic[d], shift[d]) : I(0);
            I here = d + 1 < RANK ? i - rest * size[d] : i;
#pragma unroll
            for (int o = 0; o < N; o++) at[o] += here * stride[o][d];
            i = rest;
        }
    }
};
