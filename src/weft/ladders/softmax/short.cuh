// Rows that fit in the registers of a block: blocks of a few warps for short ones, so that many are
// under way at once. And those of any length that are no whole vectors.
#pragma once
#include "row.cuh"

template <class T, int THREADS, int VECTORS>
__global__ void __launch_bounds__(THREADS) whole(const T* x, T* y, int n) {
    softmax_row<T, THREADS, VECTORS>(x, y, n);
}

template <class T>
__global__ void __launch_bounds__(256) ragged(const T* x, T* y, int n) {
    softmax_any<T, 256>(x, y, n);
}
