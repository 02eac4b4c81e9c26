"""Plan products with few rows of A: memory-bound, each element of B is read once."""

from __future__ import annotations

import functools
from typing import NamedTuple

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
WARPS = 8
"""Warps of a block of `dots`."""
SHARES = (1, 2, 4, 8)
"""Warps that share a column."""


class SkinnyLaunch(NamedTuple):
    """The reads of B by a kernel.

    width   elements that a thread reads at once
    lines   blocks beside each other
    splits  parts of K, each of `each`, in blocks of their own
    share   warps that share a column; 0: the kernel `columns`
    """

    width: int
    lines: int
    splits: int
    each: int
    share: int


def candidates(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates for up to MOST rows of A; `dots` reads B along K, `columns` along N."""
    if p.b.k != 1 and p.k != 1:
        return [_columns(p, gpu)]
    if p.a.k != 1 and p.k > 1:
        return []
    return [_dots(p, gpu, share) for share in SHARES]


def _dots(p: Product, gpu: Target, share: int) -> Candidate:
    width, rows = _width(p, True), _rows(p)
    lines = cdiv(p.n, WARPS // share * model.dots_columns(rows))
    splits = 1
    if share == WARPS:  # blocks of few columns share them, too
        wanted = cdiv(4 * gpu.sms, lines * p.batch)
        splits = max(1, min(wanted, p.k // (2 * WARPS * 32 * width)))
    launch = _split(p, width, lines, splits, 128, share)
    cost = model.SKINNY_M.dots_time(p, gpu, rows, width, lines, launch.splits, share)
    name = "dots" + (f", {share} warps a column" if share > 1 else "")
    return _candidate(p, gpu, name, cost, launch)


def _columns(p: Product, gpu: Target) -> Candidate:
    width = _width(p, False)
    lines = cdiv(p.n, 128 * width)
    splits = max(1, min(cdiv(8 * gpu.sms, lines * p.batch), cdiv(p.k, 64)))
    of = model.SKINNY_M
    slow = model.MEMORY_TIME if width * p.out.dtype.itemsize >= 4 else of.scalar_time
    cost = gpu.launch + slow * model.traffic(p) / gpu.bandwidth + p.m * of.row
    return _candidate(p, gpu, "columns", cost, _split(p, width, lines, splits, 4, 0))


def _split(p: Product, width: int, lines: int, splits: int, step: int, share: int) -> SkinnyLaunch:
    """A launch with parts of K that are multiples of `step`."""
    each = cdiv(cdiv(max(p.k, 1), splits), step) * step
    return SkinnyLaunch(width, lines, max(1, cdiv(p.k, each)), each, share)


def _candidate(p: Product, gpu: Target, name: str, cost: float, launch: SkinnyLaunch) -> Candidate:
    splits = launch.splits
    if splits > 1:
        name += f", K in {splits}"
        cost += gpu.launch + 8 * splits * p.m * p.n * p.batch / gpu.bandwidth
    why = f"{p.m} rows only: memory is the limit, {model.traffic(p):,} bytes"
    return Candidate(name, cost, why, functools.partial(plan, p, launch))


def _rows(p: Product) -> int:
    """Rows of A that the kernel is compiled for."""
    return next(n for n in (1, 2, 4, MOST) if p.m <= n)


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


def plan(p: Product, launch: SkinnyLaunch) -> Plan:
    """The plan of a launch."""
    dots, splits = launch.share > 0, launch.splits
    ctype = source.ctype(p.out.dtype)
    own = (launch.share,) if dots else ()
    words = (_rows(p), launch.width, *own, p.activation)
    name = source.template("dots" if dots else "columns", ctype, *words)
    kernel = source.kernel("matmul/skinny_m.cu", name)
    problem = p.problem(splits, launch.each, (1, 1), p.a.along, p.b.along if dots else p.b.k)
    parts = p.scratch_number() if splits > 1 else None
    args = (p.a.pointer, p.b.pointer, p.bias_pointer, p.c, parts, problem)
    grid, threads = p.grid(launch.lines * splits), WARPS * 32 if dots else 128
    steps = [*p.before, Step(kernel, grid, (threads,), args, early=dots)]
    scratch: tuple[Buffer, ...] = ()
    if splits > 1:
        scratch = (Buffer((p.batch * splits * p.m * p.n,), torch.float32),)
        name = source.template("add_parts", ctype, p.activation)
        add = source.kernel("matmul/skinny_m.cu", name)
        grid = p.grid(cdiv(p.m * p.n, 256))
        steps.append(Step(add, grid, (256,), (p.bias_pointer, p.c, parts, problem)))
    return Plan(tuple(steps), (p.out,), (*p.scratch, *scratch))
