"""Compute the running sums of up to 16 elements: y[i] = x[0] + … + x[i]."""

from numba import cuda, float32


@cuda.jit
def prefix_sum(x, y):
    values = cuda.shared.array(16, float32)
    i = cuda.threadIdx.x
    # begin
    values[i] = x[i] if i < x.size else 0
    cuda.syncthreads()
    step = 1
    while step < 16:
        left = values[i - step] if i >= step else float32(0)
        cuda.syncthreads()
        values[i] += left
        cuda.syncthreads()
        step *= 2
    if i < x.size:
        y[i] = values[i]
    # end


def run(x, y, n):
    prefix_sum[1, 16](x, y)
