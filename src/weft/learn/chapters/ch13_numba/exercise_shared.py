"""sums[b] is the sum of the 128 values of block b."""

from numba import cuda, float32


@cuda.jit
def block_sums(x, sums):
    v = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    v[t] = x[cuda.blockIdx.x * 128 + t]
    half = 64
    while half > 0:
        if t < half:
            v[t] += v[t + half]
        half //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = v[0]


def run(x, sums, m):
    block_sums[m, 128](x, sums)
