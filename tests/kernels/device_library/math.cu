// Calls every function of weft/math.cuh.
#include <weft/math.cuh>

using namespace weft;

__global__ void pairs(const float* a, const float* b, float* larger, float* smaller, float* sum,
                      float* quotient) {
    int i = threadIdx.x;
    larger[i] = max_nan(a[i], b[i]);
    smaller[i] = min_nan(a[i], b[i]);
    sum[i] = Plus()(a[i], b[i]);
    quotient[i] = divide_approx(a[i], b[i]);
}

template <class T>
__global__ void functors(const T* a, const T* b, T* larger, T* smaller) {
    int i = threadIdx.x;
    larger[i] = Maximum()(a[i], b[i]);
    smaller[i] = Minimum()(a[i], b[i]);
}

// Larger ones of packed pairs: of __half in y, of __nv_bfloat16 in z.
__global__ void packed(const unsigned* a, const unsigned* b, unsigned* y, unsigned* z) {
    int i = threadIdx.x;
    y[i] = max_nan_packed<__half>(a[i], b[i]);
    z[i] = max_nan_packed<__nv_bfloat16>(a[i], b[i]);
}

// [function][x]
__global__ void functions(const float* x, float* y) {
    int i = threadIdx.x, n = blockDim.x;
    y[i] = exp2_approx(x[i]);
    y[n + i] = log2_approx(x[i]);
    y[2 * n + i] = reciprocal_approx(x[i]);
    y[3 * n + i] = sqrt_approx(x[i]);
    y[4 * n + i] = lowest();
}

template __global__ void functors<int>(const int*, const int*, int*, int*);
template __global__ void functors<double>(const double*, const double*, double*, double*);
