"""Let y[i] be the sum of the 16 elements of the block of element i, and read each element of x
from global memory only once.
"""

from numba import cuda, float32


@cuda.jit
def shared(x, y):
    values = cuda.shared.array(16, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    # begin
    values[t] = x[i]
    cuda.syncthreads()
    total = values[0]
    for k in range(1, 16):
        total += values[k]
    y[i] = total
    # end


def run(x, y, m):
    shared[m, 16](x, y)
