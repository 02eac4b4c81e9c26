"""Plans products with few rows of A: memory-bound, each element of B is read once."""

from __future__ import annotations

import functools

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Argument, Buffer, Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.product import Product

FEW = 8
"""The most rows or columns for which a product is treated as dot products."""
NARROW = 2.0
"""The relative time of loads of 2 bytes."""

DOT, DOT_ROW = 17.5e-9, 6e-9
"""Seconds of an SM for a warp of `dots`: once, and for each row of A."""


def few(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates for up to FEW rows of A."""
    size = p.out.dtype.itemsize
    moved = size * p.batch * (p.k * p.n + p.m * p.k + p.m * p.n)
    turned = p.b.k == 1 or p.k == 1
    if turned and p.a.k != 1 and p.k > 1:
        return []
    whole = 16 // size
    wide = p.b.aligned and p.b.batch % whole == 0 and (
        p.a.aligned and all(x % whole == 0 for x in (p.b.along, p.a.along, p.a.batch)) if turned
        else p.b.k % whole == 0 and p.n % whole == 0
    )  # fmt: skip
    width = whole if wide else 1
    lines = cdiv(p.n, 8) if turned else cdiv(p.n, 128 * width)
    least = 512 if turned else 64
    wanted = max(1, cdiv(8 * gpu.sms, lines * p.batch))
    splits = max(1, min(wanted, cdiv(p.k, least)))
    each = cdiv(cdiv(max(p.k, 1), splits), 128 if turned else 4) * (128 if turned else 4)
    splits = max(1, cdiv(p.k, each))
    slow = 1.1 if width * size >= 4 else NARROW
    work = slow * moved / gpu.bandwidth
    if turned:  # a warp for each column, however short it is
        work = max(work, lines * 8 * splits * p.batch * (DOT + p.m * DOT_ROW) / gpu.sms)
    cost = gpu.launch * (1 if splits == 1 else 2) + work + p.m * 1e-6
    cost += 8 * splits * p.m * p.n * p.batch / gpu.bandwidth if splits > 1 else 0
    name = ("dots" if turned else "columns") + (f", K in {splits}" if splits > 1 else "")
    why = f"{p.m} rows only: memory is the limit, {moved:,} bytes"
    build = functools.partial(_plan_few, p, turned, width, lines, splits, each)
    return [Candidate(name, cost, why, build)]


def _plan_few(p: Product, turned: bool, width: int, lines: int, splits: int, each: int) -> Plan:
    rows = 1 if p.m == 1 else 2 if p.m == 2 else 4 if p.m <= 4 else FEW
    ctype = source.ctype(p.out.dtype)
    name = f"{'dots' if turned else 'columns'}<{ctype}, {rows}, {width}, {p.activation}>"
    kernel = source.kernel("matmul/matmul_few.cu", name)
    problem = p.problem(splits, each, (1, 1), p.a.along, p.b.along if turned else p.b.k)
    bias: Argument = p.bias[0] if p.bias else None
    parts = p.scratch_number() if splits > 1 else None
    args = (p.a.pointer, p.b.pointer, bias, p.c, parts, problem)
    threads = 256 if turned else 128
    steps = [*p.before, Step(kernel, p.grid(lines * splits), (threads,), args)]
    scratch: tuple[Buffer, ...] = ()
    if splits > 1:
        scratch = (Buffer((p.batch * splits * p.m * p.n,), torch.float32),)
        add = source.kernel("matmul/matmul_few.cu", f"add_parts<{ctype}, {p.activation}>")
        grid = p.grid(cdiv(p.m * p.n, 256))
        steps.append(Step(add, grid, (256,), (bias, p.c, parts, problem)))
    return Plan(tuple(steps), (p.out,), (*p.scratch, *scratch))
