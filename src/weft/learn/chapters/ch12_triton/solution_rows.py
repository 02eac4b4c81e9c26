"""The sum of each row of x. A program adds a row."""

import triton
import triton.language as tl


@triton.jit
def sums(x, out, n, BLOCK: tl.constexpr):
    row, place = tl.program_id(0), tl.arange(0, BLOCK)
    partial = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, n, BLOCK):
        partial += tl.load(x + row * n + first + place, mask=first + place < n, other=0)
    tl.store(out + row, tl.sum(partial))


def run(x, out, rows, n):
    sums[(rows,)](x, out, n, BLOCK=1024)
