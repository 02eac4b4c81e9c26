"""Plans products with a short K and few columns: memory-bound, a thread computes a row of C."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.product import Product

MOST = 32
"""The largest K, and the most columns."""
TERMS = 512
"""The most terms of a row of C, as the kernel's code is proportional to them."""
ROWS = 256
"""Rows of a block."""


def narrow(p: Product, gpu: Target) -> list[Candidate]:
    """A candidate for a K of at most 32 and few columns, or rows of the transposed product."""
    q = p if p.n <= p.m else p.turned()
    if not 0 < q.k <= MOST or q.n > MOST or q.k * q.n > TERMS or q.m < ROWS:
        return []
    moved = q.out.dtype.itemsize * q.batch * (q.m * q.k + q.k * q.n + q.m * q.n)
    blocks = cdiv(q.m, ROWS) * q.batch
    # Instructions of a row: a load of four of B takes as long as 16, an element of A or C as 12.
    issued = 16 * cdiv(q.k, 4) * q.n + 12 * (q.k + q.n) + 40
    cost = (
        gpu.launch
        + 1e-6
        + max(1.1 * moved / gpu.bandwidth, blocks * ROWS * issued / (gpu.fp32 / 2))
    )
    why = f"K is {q.k}, of {q.n} columns: memory is the limit, {moved:,} bytes"
    return [Candidate("narrow", cost, why, functools.partial(_plan, q))]


def _plan(p: Product) -> Plan:
    size = p.out.dtype.itemsize
    packed = p.a.k == 1 and p.a.along == p.k
    # Blocks begin at multiples of ROWS rows, so they are as aligned as their matrix.
    wide = packed and p.a.aligned and p.a.batch * size % 16 == 0
    down = p.a.along == 1 and p.k > 1
    words = (
        source.ctype(p.out.dtype), p.k, p.n, 16 // size if wide else 1, down,
        p.row_c == p.n and p.column_c == 1, p.activation,
    )  # fmt: skip
    shape = ", ".join(str(w).lower() if isinstance(w, bool) else str(w) for w in words)
    kernel = source.kernel("matmul/narrow.cu", f"narrow<{shape}>")
    problem = p.problem(1, p.k, (cdiv(p.m, ROWS), 1), p.b.along, p.b.k)
    args = (p.a.pointer, p.b.pointer, p.bias[0] if p.bias else None, p.c, problem)
    step = Step(kernel, p.grid(cdiv(p.m, ROWS)), (ROWS,), args)
    return Plan((*p.before, step), (p.out,), p.scratch)
