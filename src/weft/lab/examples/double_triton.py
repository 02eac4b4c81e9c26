"""Doubles a vector in Triton. The lab calls `run` with arrays and sizes of the form by name."""

import triton
import triton.language as tl


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, i < n), i < n)


def run(x, y, n):
    double[(triton.cdiv(n, 128),)](x, y, n, BLOCK=128)
