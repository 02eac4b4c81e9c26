"""counts[v] is how often v occurs in x."""

from numba import cuda


@cuda.jit
def histogram(x, counts):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(counts, x[i], 1)


def run(x, counts, n):
    counts[:] = 0
    histogram[(n + 127) // 128, 128](x, counts)
