// Rows that fit in the registers of a block: blocks of a few warps for short ones, so that many are under
// way at once. And those of any length that are no whole vectors.
#pragma once
#include "row.cuh"

__global__ void __launch_bounds__(32) of_1024(const float* x, float* y, int n) {
    softmax_row<float, 32, 8>(x, y, n);
}
__global__ void __launch_bounds__(64) of_2048(const float* x, float* y, int n) {
    softmax_row<float, 64, 8>(x, y, n);
}
__global__ void __launch_bounds__(128) of_4096(const float* x, float* y, int n) {
    softmax_row<float, 128, 8>(x, y, n);
}
__global__ void __launch_bounds__(256) of_8192(const float* x, float* y, int n) {
    softmax_row<float, 256, 8>(x, y, n);
}
__global__ void __launch_bounds__(512) of_16384(const float* x, float* y, int n) {
    softmax_row<float, 512, 8>(x, y, n);
}

__global__ void __launch_bounds__(256) ragged(const float* x, float* y, int n) {
    softmax_any<float, 256>(x, y, n);
}
