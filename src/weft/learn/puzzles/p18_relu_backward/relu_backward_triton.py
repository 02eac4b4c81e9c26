"""The gradient of a ReLU: dx[i] is dy[i] where x[i] is greater than 0, and 0 elsewhere."""

import triton
import triton.language as tl


@triton.jit
def relu_backward(x, dy, dx, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    # begin
    g = tl.load(dy + i, i < n)
    tl.store(dx + i, tl.where(tl.load(x + i, i < n) > 0, g, 0.0), i < n)
    # end


def run(x, dy, dx, n):
    relu_backward[(triton.cdiv(n, 8),)](x, dy, dx, n, num_warps=1)
