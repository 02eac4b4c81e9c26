"""Square each element, with 8 threads in all, however long the array is."""

from numba import cuda


@cuda.jit
def stride(x, y):
    # begin
    for i in range(cuda.grid(1), x.size, 8):
        y[i] = x[i] * x[i]
    # end


def run(x, y, n):
    stride[2, 4](x, y)
