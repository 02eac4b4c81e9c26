// One pass of a Fourier transform: each block transforms M::C rows or columns of S::N elements.
#include "access.cuh"

// S: stages. M: shared memory. IN, OUT: adjacent threads have adjacent transforms at the input and
// at the output, which keeps accesses coalesced where their elements are not adjacent.
template <class S, class M, bool IN, bool OUT, class L, class W>
__global__ void __launch_bounds__(S::T * M::C)
    transform(const typename L::Element* x, typename W::Element* y, Problem p,
              const float2* roots, const float2* turns) {
    extern __shared__ float2 shared[];
    Origin o = origin<M::C>(p);
    float2 v[S::HELD];
    Place from = place<S::T, M::C, IN>();
    bool there = o.c + from.c < p.count;
    const auto* source = x + o.in + from.c * p.in_c;
    elements<S, 0>(from.t, [&](int e, int i) {
        v[e] = there ? L::template at<S::N>(source, p, turns, i) : float2{0, 0};
    });
    stages<S, M, IN, OUT, false>(v, shared, roots);
    finish<S, M, OUT, W, (S::COUNT > 1)>(v, shared, y + o.out, p, turns, o.c);
}
