// Calls every function of weft/convert.cuh.
#include <weft/convert.cuh>

using namespace weft;

// Each x as T, as a float again, and as its bits.
template <class T>
__global__ void one(const float* x, T* y, float* back, unsigned* bits, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    y[i] = to<T>(x[i]);
    back[i] = to<float>(y[i]);
    bits[i] = bits_of(y[i]);
}

// The same by vectors of N.
template <class T, int N>
__global__ void many(const float* x, T* y, float* back) {
    int i = threadIdx.x * N;
    Vector<T, N> v = from_floats<T>(load<N>(x + i));
#pragma unroll
    for (int j = 0; j < N; ++j) y[i + j] = v[j];
    Vector<float, N> f = to_floats(v);
#pragma unroll
    for (int j = 0; j < N; ++j) back[i + j] = f[j];
}

template <class T>
__global__ void extremes(const T* a, const T* b, T* larger, T* smaller) {
    int i = threadIdx.x;
    larger[i] = max_nan(a[i], b[i]);
    smaller[i] = min_nan(a[i], b[i]);
}

__global__ void integers(const double* x, int* y) { y[threadIdx.x] = to<int>(x[threadIdx.x]); }

template __global__ void extremes<__half>(const __half*, const __half*, __half*, __half*);
template __global__ void extremes<__nv_bfloat16>(const __nv_bfloat16*, const __nv_bfloat16*,
                                                 __nv_bfloat16*, __nv_bfloat16*);
template __global__ void one<__half>(const float*, __half*, float*, unsigned*, int);
template __global__ void one<__nv_bfloat16>(const float*, __nv_bfloat16*, float*, unsigned*, int);
template __global__ void one<float>(const float*, float*, float*, unsigned*, int);
template __global__ void many<__half, 8>(const float*, __half*, float*);
template __global__ void many<__half, 1>(const float*, __half*, float*);
template __global__ void many<__nv_bfloat16, 2>(const float*, __nv_bfloat16*, float*);
