"""Compute the softmax of each row; large elements must not overflow."""

import math

import numpy as np
from numba import cuda


@cuda.jit
def softmax(x, y):
    r = cuda.threadIdx.x
    # begin
    if r < x.shape[0]:
        most, total = x[r, 0], np.float32(0)
        for c in range(1, x.shape[1]):
            most = max(most, x[r, c])
        for c in range(x.shape[1]):
            total += math.exp(x[r, c] - most)
        for c in range(x.shape[1]):
            y[r, c] = math.exp(x[r, c] - most) / total
    # end


def run(x, y, h, w):
    softmax[1, 8](x, y)
