"""
rung:   05 triton
idea:   the same in Triton: a program moves a tile; the compiler uses shared memory
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _transpose(x, y, rows, columns, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(1) * R + tl.arange(0, R)
    c = tl.program_id(0) * C + tl.arange(0, C)
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    tile = tl.load(x + r[:, None].to(tl.int64) * columns + c[None, :], mask=inside)
    tl.store(y + c[:, None].to(tl.int64) * rows + r[None, :], tl.trans(tile), mask=tl.trans(inside))


def run(x, y, rows, columns):
    grid = triton.cdiv(columns, 64), triton.cdiv(rows, 64)
    _transpose[grid](x, y, rows, columns, R=64, C=64)
