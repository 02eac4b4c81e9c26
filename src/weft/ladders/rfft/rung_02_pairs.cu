// rung:   02 pairs
// idea:   two adjacent real numbers are one complex number: the transform is half as long, and a
//         last pass separates the spectra of even and odd elements. These are the passes of
//         weft.ops.rfft
// expect: bytes read per result < 13
// scratch: a:f32[rows*n] b:f32[rows*n]

#include "passes.cuh"

template <class S, class M>
__global__ void __launch_bounds__(S::T* M::C, S::resident(S::T* M::C))
    columns(const float* x, float* a, const float* pair_roots, int n) {
    down<S, M, Load<PAIRS, float, false, true, true, false>, 2>(x, a, pair_roots, n / 2, n);
}

template <class S, class M>
__global__ void __launch_bounds__(S::T* M::C, S::resident(S::T* M::C))
    lines(const float* a, float* b, const float* pair_roots, int n) {
    along<S, M>(a, b, pair_roots + 2048, n / 2);
}

__global__ void separate(const float* b, float* y, int n) {
    int half = n / 2;
    const float2* z = (const float2*)b + (long long)half * blockIdx.x;
    float2* out = (float2*)y + (half + 1ll) * blockIdx.x;
    for (int k = blockIdx.y * 256 + threadIdx.x; k <= half / 2; k += gridDim.y * 256)
        unfolded(z[k], z[k ? half - k : 0], root(k, n), 1, out + k, out + half - k);
}
