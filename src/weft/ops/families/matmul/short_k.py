"""Plan products with a short K: memory-bound, most of the bytes are those of C."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan
from weft.ops.core.target import Target
from weft.ops.families.matmul import model
from weft.ops.families.matmul.product import ALONG_K, Product

LARGEST_K = 32
THREADS = 128
ROWS = 32
"""Rows of a tile."""


def candidates(p: Product, gpu: Target) -> list[Candidate]:
    """A candidate for a K of at most 32 and rows of C that are contiguous."""
    if not 0 < p.k <= LARGEST_K or p.column_c != 1:
        return []
    depth = cdiv(p.k, 4) * 4  # filled with zeros
    # Vectors of four columns need registers for four times as much of B.
    width = 4 if p.n % 4 == 0 and depth <= 8 else 1
    tiles = (cdiv(p.m, ROWS), cdiv(p.n, THREADS * width))
    elements = p.m * p.k * tiles[1] + p.k * p.n * tiles[0] + p.m * p.n
    moved = p.out.dtype.itemsize * p.batch * elements
    threads = p.batch * p.m * tiles[1] * THREADS
    # Instructions of a thread in a row: products, loads of A, and a store with its address.
    issued = threads * (width * depth + depth // 4 + 4) / (gpu.fp32 / 2)
    work = max(model.MEMORY_TIME * moved / gpu.bandwidth, issued)
    cost = gpu.launch + model.MEMORY_OVERHEAD + work
    why = f"K is {p.k}: memory is the limit, {moved:,} bytes"
    build = functools.partial(_plan, p, depth, width, tiles)
    return [Candidate(f"short K, {width * THREADS} columns", cost, why, build)]


def _plan(p: Product, depth: int, width: int, tiles: tuple[int, int]) -> Plan:
    transposed = p.b.mode(p.n, p.k) == ALONG_K
    words = (source.ctype(p.out.dtype), depth, ROWS, width, transposed, p.activation)
    kernel = source.kernel("matmul/short_k.cu", source.template("short_k", *words))
    pitches = (p.a.along, p.b.along if transposed else p.b.k)
    return p.plan(kernel, tiles, THREADS, pitches, early=True)


# ---- few columns: a thread computes a row of C ---------------------------------------------------
FEW = 32
"""The largest K, and the most columns."""
TERMS = 512
"""The most terms of a row of C, as the kernel's code is proportional to them."""
BLOCK_ROWS = 256
"""Rows of a block."""


def skinny_candidates(p: Product, gpu: Target) -> list[Candidate]:
    """A candidate for a K of at most 32 and few columns, or rows of the transposed product."""
    q = p if p.n <= p.m else p.transposed()
    if not 0 < q.k <= FEW or q.n > FEW or q.k * q.n > TERMS or q.m < BLOCK_ROWS:
        return []
    moved = model.traffic(q)
    blocks = cdiv(q.m, BLOCK_ROWS) * q.batch
    of = model.SKINNY_N
    issued = of.b_vector * cdiv(q.k, 4) * q.n + of.element * (q.k + q.n) + of.row
    work = model.MEMORY_TIME * moved / gpu.bandwidth, blocks * BLOCK_ROWS * issued / (gpu.fp32 / 2)
    cost = gpu.launch + model.MEMORY_OVERHEAD + max(work)
    why = f"K is {q.k}, of {q.n} columns: memory is the limit, {moved:,} bytes"
    return [Candidate("skinny N", cost, why, functools.partial(_skinny_plan, q))]


def _skinny_plan(p: Product) -> Plan:
    size = p.out.dtype.itemsize
    packed = p.a.k == 1 and p.a.along == p.k
    # Blocks begin at multiples of BLOCK_ROWS rows, so they are as aligned as their matrix.
    wide = packed and p.a.aligned and p.a.batch * size % 16 == 0
    down = p.a.along == 1 and p.k > 1
    dense = p.row_c == p.n and p.column_c == 1
    words = (p.k, p.n, 16 // size if wide else 1, down, dense, p.activation)
    name = source.template("skinny_n", source.ctype(p.out.dtype), *words)
    kernel = source.kernel("matmul/skinny_n.cu", name)
    tiles = cdiv(p.m, BLOCK_ROWS), 1
    return p.plan(kernel, tiles, BLOCK_ROWS, (p.b.along, p.b.k), early=True)
