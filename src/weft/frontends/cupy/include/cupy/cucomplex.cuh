// The names of cuComplex.h for complex<T>: `translate_cucomplex=True` includes this instead.
#pragma once
#include <cupy/complex.cuh>

typedef complex<float> cuFloatComplex, cuComplex;
typedef complex<double> cuDoubleComplex;

#define WEFT_CUCOMPLEX(T, suffix, name)                                                       \
    __device__ inline complex<T> make_cu##name(T re, T im) { return complex<T>(re, im); }     \
    __device__ inline T cuCreal##suffix(complex<T> z) { return z.real(); }                    \
    __device__ inline T cuCimag##suffix(complex<T> z) { return z.imag(); }                    \
    __device__ inline T cuCabs##suffix(complex<T> z) { return abs(z); }                       \
    __device__ inline complex<T> cuConj##suffix(complex<T> z) { return conj(z); }             \
    __device__ inline complex<T> cuCadd##suffix(complex<T> a, complex<T> b) { return a + b; } \
    __device__ inline complex<T> cuCsub##suffix(complex<T> a, complex<T> b) { return a - b; } \
    __device__ inline complex<T> cuCmul##suffix(complex<T> a, complex<T> b) { return a * b; } \
    __device__ inline complex<T> cuCdiv##suffix(complex<T> a, complex<T> b) { return a / b; } \
    __device__ inline complex<T> cuCfma##suffix(complex<T> a, complex<T> b, complex<T> c) {   \
        return a * b + c;                                                                     \
    }
WEFT_CUCOMPLEX(float, f, FloatComplex)
WEFT_CUCOMPLEX(double, , DoubleComplex)
__device__ inline cuComplex make_cuComplex(float re, float im) { return cuComplex(re, im); }
__device__ inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) { return z; }
__device__ inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) { return z; }
