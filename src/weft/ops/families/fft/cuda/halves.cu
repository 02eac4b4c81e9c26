// Between half spectra of real tensors and complex transforms, for lengths of several passes.
// Block x is the row; n is the length of the real transform. Rows of y are contiguous, rows of x
// are `pitch` elements apart.
#include "access.cuh"

// Calls f for k = 0 to count - 1, with the blocks of a row.
template <class F>
__device__ __forceinline__ void along_row(int count, F&& f) {
    for (int k = blockIdx.y * blockDim.x + threadIdx.x; k < count; k += gridDim.y * blockDim.x)
        f(k);
}

// x: n / 2 elements of the transform of pairs; y: n / 2 + 1 elements of the spectrum.
extern "C" __global__ void unfold(const float2* x, float2* y, int n, float scale, float weight) {
    int half = n / 2;
    x += (long long)blockIdx.x * half, y += (long long)blockIdx.x * (half + 1);
    along_row(half / 2 + 1, [&](int k) {
        float all = scale * (k ? weight : 1);
        unfolded(x[k], x[k ? half - k : 0], root(k, n), all, y + k, y + half - k);
    });
}

// The opposite. `valid` elements of x exist, the others are 0.
extern "C" __global__ void fold(const float2* x, float2* y, int n, float weight, int valid,
                                long long pitch) {
    int half = n / 2;
    x += blockIdx.x * pitch, y += (long long)blockIdx.x * half;
    along_row(half, [&](int k) {
        float2 a = k < valid ? x[k] : float2{0, 0};
        float2 b = half - k < valid ? x[half - k] : float2{0, 0};
        y[k] = folded(a, b, root(k, n), k == 0, weight);
    });
}

// The first half of a spectrum.
extern "C" __global__ void first_half(const float2* x, float2* y, int n, float weight) {
    int half = n / 2 + 1;
    x += (long long)blockIdx.x * n, y += (long long)blockIdx.x * half;
    along_row(half, [&](int k) { y[k] = (k == 0 || 2 * k == n ? 1.0f : weight) * x[k]; });
}

// The whole spectrum of its first half.
extern "C" __global__ void both_halves(const float2* x, float2* y, int n, float weight, int valid,
                                       long long pitch) {
    x += blockIdx.x * pitch, y += (long long)blockIdx.x * n;
    along_row(n, [&](int k) {
        int from = 2 * k > n ? n - k : k;
        float2 v = from < valid ? x[from] : float2{0, 0};
        if (k == 0 || 2 * k == n) v.y = 0;
        else v = weight * (from == k ? v : conjugate(v));
        y[k] = v;
    });
}

// y[k] = scale x[k] table[k] for k < count, and 0 for the others up to `length`. SWAP_IN, SWAP_OUT:
// real and imaginary parts of x and of y are exchanged. A real y gets the real parts.
template <class X, class Y, bool SWAP_IN, bool SWAP_OUT>
__global__ void multiply(const X* x, Y* y, const float2* table, long long pitch, int count,
                         int length, float scale) {
    x += blockIdx.x * pitch, y += (long long)blockIdx.x * length;
    along_row(length, [&](int k) {
        float2 v = {0, 0};
        if (k < count) {
            if constexpr (sizeof(X) == 8) v = x[k];
            else v = {to<float>(x[k]), 0};
            v = scale * ((SWAP_IN ? swapped(v) : v) * __ldg(table + k));
        }
        if (SWAP_OUT) v = swapped(v);
        if constexpr (sizeof(Y) == 8) y[k] = v;
        else y[k] = v.x;
    });
}
