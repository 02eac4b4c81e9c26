// complex<T> of CuPy's kernels.
#pragma once
#include <thrust/complex.h>
using thrust::complex;
using thrust::polar;
using thrust::arg;
using thrust::norm;
using thrust::conj;
using thrust::proj;
