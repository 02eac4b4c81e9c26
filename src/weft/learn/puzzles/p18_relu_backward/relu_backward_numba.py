"""The gradient of a ReLU: dx[i] is dy[i] where x[i] is greater than 0, and 0 elsewhere."""

from numba import cuda


@cuda.jit
def relu_backward(x, dy, dx):
    i = cuda.grid(1)
    # begin
    if i < x.size:
        dx[i] = dy[i] if x[i] > 0 else 0
    # end


def run(x, dy, dx, n):
    relu_backward[(n + 7) // 8, 8](x, dy, dx)
