"""out = x + y."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < n
    tl.store(out + place, tl.load(x + place, mask) + tl.load(y + place, mask), mask)


def run(x, y, out, n):
    add[(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
