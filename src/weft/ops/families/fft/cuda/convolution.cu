// Convolution by Fourier transforms: the product of two spectra with the inverse transform of its
// columns, and the inverse transform of rows that writes a window of its results.
#include "access.cuh"

STRUCT_PRODUCT

// CONJUGATE: b's elements are conjugated, which makes the convolution a correlation.
template <class S, class M, bool CONJUGATE>
__global__ void __launch_bounds__(S::T* M::C, S::resident(S::T* M::C))
    product(const float2* a, const float2* b, float2* y, Product p, const float2* roots) {
    extern __shared__ float2 shared[];
    Place at = place<S::T, M::C, true>();
    long long image = blockIdx.x / p.tiles;
    int column = blockIdx.x % p.tiles * M::C + at.c;
    bool there = column < p.columns;
    long long i = image / p.inner / p.groups;
    int g = image / p.inner % p.groups, j = image % p.inner;
    a += i * p.a[0] + g * p.a[1] + j * p.a[2] + column;
    b += i * p.b[0] + g * p.b[1] + j * p.b[2] + column;
    float2 v[S::REGS] = {};
    for (int s = 0; s < p.terms; s++, a += p.a[3], b += p.b[3])
        elements<S, 0>(at.t, [&](int e, int row) {
            if (!there) return;
            float2 factor = b[row * p.pitch];
            v[e] = v[e] + a[row * p.pitch] * (CONJUGATE ? conjugate(factor) : factor);
        });
    elements<S, 0>(at.t, [&](int e, int) { v[e] = swapped(v[e]); });
    stages<S, M, true, true, false>(v, shared, roots);
    y += image * p.written * p.pitch + column;
    elements<S, S::COUNT - 1>(at.t, [&](int e, int i) {
        int row = i + p.shift < S::N ? i + p.shift : i + p.shift - S::N;
        if (there && row < p.written) y[row * p.pitch] = p.scale * swapped(v[e]);
    });
}

// Rows of half spectra to 2 S::N real numbers, of which p.written are written: number q is number
// (q - shift) mod 2 N of the inverse transform. A bias, if there is one, is for the middle index.
template <class S, class M, class L>
__global__ void __launch_bounds__(S::T* M::C, S::resident(S::T* M::C))
    cropped(const float2* x, float* y, Problem p, const float2* roots, const float2* turns,
            const float* bias, int shift) {
    extern __shared__ float2 shared[];
    Origin o = origin<M::C>(p);
    float2 v[S::REGS];
    Place at = place<S::T, M::C, false>();
    bool there = o.c + at.c < p.count;
    const float2* source = x + o.in + at.c * p.in_c;
    elements<S, 0>(at.t, [&](int e, int i) {
        v[e] = there ? L::template at<S::N>(source, p, turns, o.c + at.c, i) : float2{0, 0};
    });
    stages<S, M, false, false, false>(v, shared, roots);
    float added = bias ? bias[blockIdx.x / p.tiles % p.middle] : 0;
    y += o.out + at.c * p.out_c;
    auto put = [&](int i, float value) {
        int q = i + shift < 2 * S::N ? i + shift : i + shift - 2 * S::N;
        if (there && q < p.written) y[q * p.output] = p.scale * value + added;
    };
    elements<S, S::COUNT - 1>(at.t, [&](int e, int i) {
        put(2 * i, v[e].y);
        put(2 * i + 1, v[e].x);
    });
}
