// Functions of the kernels of weft.fuse beside their own expressions.
#pragma once
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/problem.cuh>

#include "../../families/activation/cuda/activations.cuh"
#include "../../core/cuda/functions.cuh"
#include "../../core/cuda/operations.cuh"

using namespace weft;

template <class T> __device__ T not_a_number();
template <> __device__ inline float not_a_number() { return __int_as_float(0x7fc00000); }
template <> __device__ inline double not_a_number() {
    return __longlong_as_double(0x7ff8000000000000ll);
}
