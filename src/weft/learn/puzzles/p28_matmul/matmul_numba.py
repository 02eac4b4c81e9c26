"""Multiply two matrices: C[r, c] is the dot product of row r of A and column c of B."""

import numpy as np
from numba import cuda


@cuda.jit
def matmul(A, B, C):
    c, r = cuda.threadIdx.x, cuda.threadIdx.y
    # begin
    if r < C.shape[0] and c < C.shape[1]:
        total = np.float32(0)
        for j in range(A.shape[1]):
            total += A[r, j] * B[j, c]
        C[r, c] = total
    # end


def run(A, B, C, m, n, k):
    matmul[1, (8, 8)](A, B, C)
