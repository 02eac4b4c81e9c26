"""Plan products with a short K and few columns: memory-bound, a thread computes a row of C."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan
from weft.ops.core.target import Target
from weft.ops.families.matmul import model
from weft.ops.families.matmul.product import Product

MOST = 32
"""The largest K, and the most columns."""
TERMS = 512
"""The most terms of a row of C, as the kernel's code is proportional to them."""
ROWS = 256
"""Rows of a block."""


def candidates(p: Product, gpu: Target) -> list[Candidate]:
    """A candidate for a K of at most 32 and few columns, or rows of the transposed product."""
    q = p if p.n <= p.m else p.transposed()
    if not 0 < q.k <= MOST or q.n > MOST or q.k * q.n > TERMS or q.m < ROWS:
        return []
    moved = model.traffic(q)
    blocks = cdiv(q.m, ROWS) * q.batch
    of = model.SKINNY_N
    issued = of.b_vector * cdiv(q.k, 4) * q.n + of.element * (q.k + q.n) + of.row
    work = model.MEMORY_TIME * moved / gpu.bandwidth, blocks * ROWS * issued / (gpu.fp32 / 2)
    cost = gpu.launch + model.MEMORY_OVERHEAD + max(work)
    why = f"K is {q.k}, of {q.n} columns: memory is the limit, {moved:,} bytes"
    return [Candidate("skinny N", cost, why, functools.partial(_plan, q))]


def _plan(p: Product) -> Plan:
    size = p.out.dtype.itemsize
    packed = p.a.k == 1 and p.a.along == p.k
    # Blocks begin at multiples of ROWS rows, so they are as aligned as their matrix.
    wide = packed and p.a.aligned and p.a.batch * size % 16 == 0
    down = p.a.along == 1 and p.k > 1
    dense = p.row_c == p.n and p.column_c == 1
    words = (p.k, p.n, 16 // size if wide else 1, down, dense, p.activation)
    name = source.template("skinny_n", source.ctype(p.out.dtype), *words)
    kernel = source.kernel("matmul/skinny_n.cu", name)
    return p.plan(kernel, (cdiv(p.m, ROWS), 1), ROWS, (p.b.along, p.b.k))
