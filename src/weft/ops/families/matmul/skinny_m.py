"""Plan products with few rows of A: memory-bound, each element of B is read once."""

from __future__ import annotations

import functools

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Buffer, Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul import model
from weft.ops.families.matmul.product import Product

MOST = 8
"""The most rows or columns for which a product is treated as dot products."""


def candidates(p: Product, gpu: Target) -> list[Candidate]:
    """A candidate for up to MOST rows of A; `dots` reads B along K, `columns` along N."""
    size = p.out.dtype.itemsize
    dots = p.b.k == 1 or p.k == 1
    if dots and p.a.k != 1 and p.k > 1:
        return []
    width = _width(p, dots)
    lines = cdiv(p.n, 8) if dots else cdiv(p.n, 128 * width)
    least, step = (512, 128) if dots else (64, 4)
    wanted = max(1, cdiv(8 * gpu.sms, lines * p.batch))
    splits = max(1, min(wanted, cdiv(p.k, least)))
    each = cdiv(cdiv(max(p.k, 1), splits), step) * step
    splits = max(1, cdiv(p.k, each))
    of, moved = model.SKINNY_M, model.traffic(p)
    slow = model.MEMORY_TIME if width * size >= 4 else of.scalar_time
    work = slow * moved / gpu.bandwidth
    if dots:  # a warp for each column, however short it is
        work = max(work, lines * 8 * splits * p.batch * (of.warp + p.m * of.warp_row) / gpu.sms)
    cost = gpu.launch * (1 if splits == 1 else 2) + work + p.m * of.row
    cost += 8 * splits * p.m * p.n * p.batch / gpu.bandwidth if splits > 1 else 0
    name = ("dots" if dots else "columns") + (f", K in {splits}" if splits > 1 else "")
    why = f"{p.m} rows only: memory is the limit, {moved:,} bytes"
    build = functools.partial(_plan, p, dots, width, lines, splits, each)
    return [Candidate(name, cost, why, build)]


def _width(p: Product, dots: bool) -> int:
    """Elements that a thread reads at once: 16 bytes if rows are whole vectors, or one."""
    whole = 16 // p.out.dtype.itemsize
    if not p.b.aligned or p.b.batch % whole:
        return 1
    if dots:
        strides = (p.b.along, p.a.along, p.a.batch)
        wide = p.a.aligned and all(x % whole == 0 for x in strides)
    else:
        wide = p.b.k % whole == 0 and p.n % whole == 0
    return whole if wide else 1


def _plan(p: Product, dots: bool, width: int, lines: int, splits: int, each: int) -> Plan:
    rows = next(n for n in (1, 2, 4, MOST) if p.m <= n)
    ctype = source.ctype(p.out.dtype)
    name = source.template("dots" if dots else "columns", ctype, rows, width, p.activation)
    kernel = source.kernel("matmul/skinny_m.cu", name)
    problem = p.problem(splits, each, (1, 1), p.a.along, p.b.along if dots else p.b.k)
    parts = p.scratch_number() if splits > 1 else None
    args = (p.a.pointer, p.b.pointer, p.bias_pointer, p.c, parts, problem)
    threads = 256 if dots else 128
    steps = [*p.before, Step(kernel, p.grid(lines * splits), (threads,), args)]
    scratch: tuple[Buffer, ...] = ()
    if splits > 1:
        scratch = (Buffer((p.batch * splits * p.m * p.n,), torch.float32),)
        name = source.template("add_parts", ctype, p.activation)
        add = source.kernel("matmul/skinny_m.cu", name)
        grid = p.grid(cdiv(p.m * p.n, 256))
        steps.append(Step(add, grid, (256,), (p.bias_pointer, p.c, parts, problem)))
    return Plan(tuple(steps), (p.out,), (*p.scratch, *scratch))
