// What the kernels of weft.fuse use beside their own expressions.
#pragma once
#include "functions.cuh"
#include "group.cuh"
#include "operations.cuh"
#include "quotient.cuh"
#include "vector.cuh"

template <class T> __device__ T not_a_number();
template <> __device__ inline float not_a_number() { return __int_as_float(0x7fc00000); }
template <> __device__ inline double not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }
