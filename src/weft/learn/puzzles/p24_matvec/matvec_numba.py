"""Multiply a matrix by a vector: y[r] is the dot product of row r and x. One thread for each
row.
"""

import numpy as np
from numba import cuda


@cuda.jit
def matvec(A, x, y):
    r = cuda.threadIdx.x
    # begin
    if r < y.size:
        total = np.float32(0)
        for c in range(x.size):
            total += A[r, c] * x[c]
        y[r] = total
    # end


def run(A, x, y, h, w):
    matvec[1, 8](A, x, y)
