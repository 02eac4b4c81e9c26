// One pass of a Fourier transform: each block transforms M::C rows or columns of S::N elements.
#include "access.cuh"

// S: stages. M: shared memory. IN, OUT: adjacent threads have adjacent transforms at the input and
// at the output, which keeps accesses coalesced where their elements are not adjacent. STAGED: a
// transform has few threads, and its elements pass through shared memory on their way in and out,
// so that adjacent threads access adjacent elements. JOINED: see Origin; not STAGED.
template <class S, class M, bool IN, bool OUT, bool STAGED, bool JOINED, class L, class W>
__global__ void __launch_bounds__(S::T* M::C, S::resident(S::T* M::C))
    transform(const typename L::Element* x, typename W::Element* y, Problem p, const float2* roots,
              const float2* turns) {
    extern __shared__ float2 shared[];
    static_assert(!STAGED || !JOINED, "rows that pass through shared memory");
    Origin o = origin<M::C, JOINED>(p);
    float2 v[S::REGS];
    Place from = place<S::T, M::C, IN>();
    auto given = [&](int c, int i) {
        const auto* source = x + o.in + distance<JOINED>(p, o.c, c, p.in_c, p.in_middle);
        return exists<JOINED>(p, o.c, c) ? L::template at<S::N>(source, p, turns, o.c + c, i)
                                         : float2{0, 0};
    };
    if constexpr (STAGED) {
        for (int i = threadIdx.x; i < M::C * S::N; i += S::T * M::C)
            shared[M::at(i % S::N, i / S::N)] = given(i / S::N, i % S::N);
        __syncthreads();
        elements<S, 0>(from.t, [&](int e, int i) { v[e] = shared[M::at(i, from.c)]; });
    } else {
        elements<S, 0>(from.t, [&](int e, int i) { v[e] = given(from.c, i); });
    }
    constexpr bool USED = STAGED || S::COUNT > 1;
    stages<S, M, IN, OUT, STAGED>(v, shared, roots);
    if constexpr (STAGED) finish_staged<S, M, W>(v, shared, y + o.out, p, turns, o.c);
    else finish<S::N, S, M, OUT, W, USED, JOINED>(v, shared, y + o.out, p, turns, o.c);
}

// Lengths N with large prime factors, by Bluestein's algorithm: k n = (k^2 + n^2 - (k - n)^2) / 2,
// so the transform is a convolution with a chirp, which is done by transforms S of N' >= 2 N - 1
// elements. B has the stages of S in the opposite order: it starts with the elements that each
// thread has at the end of S. `filter` is the spectrum of the chirp over N', real and imaginary
// parts as they are.
template <int N, class S, class B, class M, bool IN, bool OUT, class L, class W>
__global__ void __launch_bounds__(S::T* M::C, S::resident(S::T* M::C))
    bluestein(const typename L::Element* x, typename W::Element* y, Problem p, const float2* roots,
              const float2* back, const float2* turns, const float2* chirp, const float2* filter) {
    extern __shared__ float2 shared[];
    Origin o = origin<M::C>(p);
    float2 v[S::REGS];
    Place from = place<S::T, M::C, IN>(), to = place<S::T, M::C, OUT>();
    bool there = o.c + from.c < p.count;
    const auto* source = x + o.in + from.c * p.in_c;
    elements<S, 0>(from.t, [&](int e, int i) {
        v[e] = there && i < N
                   ? L::template at<N>(source, p, turns, o.c + from.c, i) * __ldg(chirp + i)
                   : float2{0, 0};
    });
    stages<S, M, IN, OUT, false>(v, shared, roots);
    // Swapped real and imaginary parts make the second transform an inverse one.
    elements<S, S::COUNT - 1>(to.t,
                              [&](int e, int i) { v[e] = swapped(v[e] * __ldg(filter + i)); });
    stages<B, M, OUT, OUT, true>(v, shared, back);
    elements<B, B::COUNT - 1>(to.t, [&](int e, int i) {
        if (i < N) v[e] = swapped(v[e]) * __ldg(chirp + i);
    });
    finish<N, B, M, OUT, W, true>(v, shared, y + o.out, p, turns, o.c);
}

// The middle pass of a convolution in a matrix z, in place: each block transforms one of `rows`
// rows, multiplies it by that of the filter, and transforms it back with real and imaginary parts
// exchanged. Images of so many rows follow each other. B: as above.
template <class S, class B, class M>
__global__ void __launch_bounds__(S::T, S::resident(S::T))
    filtered(float2* z, int rows, const float2* roots, const float2* back, const float2* filter) {
    extern __shared__ float2 shared[];
    int row = blockIdx.x % rows, t = threadIdx.x;
    z += (long long)blockIdx.x * S::N;
    filter += (long long)row * S::N;
    float2 v[S::REGS];
    elements<S, 0>(t, [&](int e, int i) { v[e] = z[i]; });
    stages<S, M, false, false, false>(v, shared, roots);
    elements<S, S::COUNT - 1>(t, [&](int e, int i) { v[e] = swapped(v[e] * __ldg(filter + i)); });
    stages<B, M, false, false, true>(v, shared, back);
    elements<B, B::COUNT - 1>(
        t, [&](int e, int i) { z[i] = v[e] * root((long long)row * i, (long long)rows * S::N); });
}
