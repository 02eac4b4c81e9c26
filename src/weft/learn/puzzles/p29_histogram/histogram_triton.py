"""Count how often each of the values 0 to 7 occurs."""

import triton
import triton.language as tl


@triton.jit
def histogram(x, counts, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    # begin
    tl.atomic_add(counts + tl.load(x + i, i < n), 1, i < n)
    # end


def run(x, counts, n):
    counts.zero_()
    histogram[(triton.cdiv(n, 8),)](x, counts, n, num_warps=1)
