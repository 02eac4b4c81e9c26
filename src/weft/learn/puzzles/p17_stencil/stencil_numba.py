"""Add each element and its two neighbours; outside of the array there are zeros."""

import numpy as np
from numba import cuda


@cuda.jit
def stencil(x, y):
    i = cuda.grid(1)
    # begin
    if i < x.size:
        left = x[i - 1] if i > 0 else np.float32(0)
        right = x[i + 1] if i + 1 < x.size else np.float32(0)
        y[i] = left + x[i] + right
    # end


def run(x, y, n):
    stencil[(n + 7) // 8, 8](x, y)
