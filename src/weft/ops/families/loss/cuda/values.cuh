// Functions for the expressions of losses.
#pragma once
#include <assert.h>

#include "../../../core/cuda/functions.cuh"

__device__ inline float sign(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }
__device__ inline float clamped(float log) {
    return log < -100 ? -100 : log;
}  // as PyTorch; NaN stays
__device__ inline float xlogx(float x) { return x == 0 ? 0 : x * logf(x); }
__device__ inline float softplus(float x) { return maximum(x, 0.0f) + log1pf(expf(-fabsf(x))); }
