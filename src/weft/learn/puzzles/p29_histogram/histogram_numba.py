"""Count how often each of the values 0 to 7 occurs."""

from numba import cuda


@cuda.jit
def histogram(x, counts):
    i = cuda.grid(1)
    # begin
    if i < x.size:
        cuda.atomic.add(counts, x[i], 1)
    # end


def run(x, counts, n):
    counts[:] = 0
    histogram[(n + 7) // 8, 8](x, counts)
