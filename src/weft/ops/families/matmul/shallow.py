"""Plans products with a short K: memory-bound, most of the bytes are those of C."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.product import TURNED, Product

DEEP = 32
"""The largest K."""
THREADS = 128
ROWS = 32
"""Rows of a tile."""


def shallow(p: Product, gpu: Target) -> list[Candidate]:
    """A candidate for a K of at most 32 and rows of C that are contiguous."""
    if not 0 < p.k <= DEEP or p.column_c != 1:
        return []
    deep = cdiv(p.k, 4) * 4  # filled with zeros
    # Vectors of four columns need registers for four times as much of B.
    width = 4 if p.n % 4 == 0 and deep <= 8 else 1
    tiles = (cdiv(p.m, ROWS), cdiv(p.n, THREADS * width))
    moved = (
        p.out.dtype.itemsize * p.batch * (p.m * p.k * tiles[1] + p.k * p.n * tiles[0] + p.m * p.n)
    )
    threads = p.batch * p.m * tiles[1] * THREADS
    # Instructions of a thread in a row: products, loads of A, and a store with its address.
    issued = threads * (width * deep + deep // 4 + 4) / (gpu.fp32 / 2)
    cost = gpu.launch + 1e-6 + max(1.1 * moved / gpu.bandwidth, issued)
    why = f"K is {p.k}: memory is the limit, {moved:,} bytes"
    build = functools.partial(_plan, p, deep, width, tiles)
    return [Candidate(f"shallow, {width * THREADS} columns", cost, why, build)]


def _plan(p: Product, deep: int, width: int, tiles: tuple[int, int]) -> Plan:
    turned = p.b.mode(p.n, p.k) == TURNED
    ctype = source.ctype(p.out.dtype)
    shape = f"{ctype}, {deep}, {ROWS}, {width}, {str(turned).lower()}, {p.activation}"
    kernel = source.kernel("matmul/shallow.cu", f"shallow<{shape}>")
    problem = p.problem(1, p.k, tiles, p.a.along, p.b.along if turned else p.b.k)
    args = (p.a.pointer, p.b.pointer, p.bias[0] if p.bias else None, p.c, problem)
    return Plan(
        (*p.before, Step(kernel, p.grid(tiles[0] * tiles[1]), (THREADS,), args)),
        (p.out,),
        p.scratch,
    )
