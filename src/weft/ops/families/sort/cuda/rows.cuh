// Rows of a tensor, and where the sorted ones go; see job.py.
#pragma once

STRUCT_ROWS

// The places of the first element of a row in the tensor, and in the results.
__device__ inline long long x_base(const Rows& r, long long row) {
    return r.inner == 1 ? row * r.x_outer : row / r.inner * r.x_outer + row % r.inner * r.x_inner;
}
__device__ inline long long y_base(const Rows& r, long long row) {
    return r.inner == 1 ? row * r.y_outer : row / r.inner * r.y_outer + row % r.inner * r.y_inner;
}
