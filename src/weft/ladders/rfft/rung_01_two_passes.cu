// rung:   01 two passes
// idea:   n = A B: transforms down the columns of a matrix, roots of unity, transforms along its
//         rows (the four-step algorithm, Bailey 1990). A block does 8 adjacent columns at a time in
//         shared memory, so two passes replace log2 n, and every access is of whole sectors
// expect: bytes read per result < 20
// scratch: a:f32[2*rows*n] b:f32[2*rows*n]

#include "passes.cuh"

template <class S, class M>
__global__ void __launch_bounds__(S::T* M::C, S::resident(S::T* M::C))
    columns(const float* x, float* a, const float* roots, int n) {
    down<S, M, Load<REAL, float, false, true, false, false>, 1>(x, a, roots, n, n);
}

template <class S, class M>
__global__ void __launch_bounds__(S::T* M::C, S::resident(S::T* M::C))
    lines(const float* a, float* b, const float* roots, int n) {
    along<S, M>(a, b, roots + 2048, n);
}

__global__ void first_half(const float* b, float* y, int n) {
    for (int k = blockIdx.y * 256 + threadIdx.x; k <= n / 2; k += gridDim.y * 256)
        ((float2*)y)[(n / 2 + 1ll) * blockIdx.x + k] =
            ((const float2*)b)[(long long)n * blockIdx.x + k];
}
