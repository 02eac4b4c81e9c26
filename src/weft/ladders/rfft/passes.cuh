// The passes of a long transform, by the stages and accesses of weft.ops.fft. A row of N = A B
// elements is a matrix of A rows and B columns.
#pragma once
#include "../../ops/families/fft/cuda/access.cuh"

template <class S, class M, bool IN, class L, class W>
__device__ __forceinline__ void pass(const typename L::Element* x, typename W::Element* y,
                                     const Problem& p, const float* roots) {
    extern __shared__ float2 shared[];
    Origin o = origin<M::C>(p);
    Place from = place<S::T, M::C, IN>();
    const auto* source = x + o.in + from.c * p.in_c;
    float2 v[S::REGS];
    elements<S, 0>(from.t, [&](int e, int i) {
        v[e] = o.c + from.c < p.count ? L::template at<S::N>(source, p, nullptr, o.c + from.c, i)
                                      : float2{0, 0};
    });
    stages<S, M, IN, true, false>(v, shared, (const float2*)roots);
    finish<S::N, S, M, true, W, (S::COUNT > 1)>(v, shared, y + o.out, p, nullptr, o.c);
}

// Down the columns, then times roots of unity. Elements of x are `size` floats.
template <class S, class M, class L, int SIZE>
__device__ __forceinline__ void down(const float* x, float* z, const float* roots, int n,
                                     long long pitch) {
    Problem p = {};
    int columns = n / S::N;
    p.input = (long long)columns * SIZE, p.in_c = SIZE, p.in_outer = pitch, p.in_next = 1;
    p.output = columns, p.out_c = 1, p.out_outer = n;
    p.whole = n, p.count = columns, p.middle = 1, p.tiles = divided_up(columns, M::C);
    p.written = S::N, p.scale = p.weight = 1;
    pass<S, M, true, L, Store<TWIDDLED, false, false, false>>(x, (float2*)z, p, roots);
}

// Along the rows; the results are written transposed.
template <class S, class M>
__device__ __forceinline__ void along(const float* z, float* y, const float* roots, int n) {
    Problem p = {};
    int rows = n / S::N;
    p.input = 1, p.in_c = S::N, p.in_outer = n;
    p.output = rows, p.out_c = 1, p.out_outer = n;
    p.count = rows, p.middle = 1, p.tiles = divided_up(rows, M::C);
    p.written = S::N, p.scale = p.weight = 1;
    using In = Load<COMPLEX, float2, true, true, false, false>;
    pass<S, M, false, In, Store<ALL, false, false, false>>((const float2*)z, (float2*)y, p, roots);
}
