"""The softmax of each row of x. A program computes a row."""

import triton
import triton.language as tl


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row, place = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + place, mask=place < n, other=-float("inf"))
    e = tl.exp(v)
    tl.store(out + row * n + place, e / tl.sum(e), mask=place < n)


def run(x, out, rows, n):
    softmax[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))
