"""Plan products of float32 in tf32: Hopper's wgmma on operands whose K is contiguous.

An operand whose K is not contiguous, or whose rows begin anywhere, is copied first.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Buffer, Layout, Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.elementwise.copies import copying
from weft.ops.families.elementwise.jobs import Strategy
from weft.ops.families.matmul import pipelined
from weft.ops.families.matmul.product import Operand, Product

MOST = 8
"""Candidates with a copy."""


def candidates(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates for a product in tf32; none for other GPUs than Hopper."""
    # Rows of copies are whole vectors.
    if gpu.capability != pipelined.CAPABILITY or p.k % 4:
        return []
    copies: list[Strategy] = []
    made = p
    for name, side in zip("ab", p.sides, strict=True):
        if not side.k_major or side.bytes != 16:
            made, copy = _copied(made, name, gpu)
            copies.append(copy)
    found = [replace(c, name=f"tf32, {c.name}") for c in pipelined.candidates(made, gpu)]
    if not copies:
        return found
    cost = sum(copy.cost for copy in copies)
    return [
        Candidate(f"copy, {c.name}", c.cost + cost, c.why, functools.partial(_plan, copies, c))
        for c in sorted(found, key=lambda c: c.cost)[:MOST]
    ]


def _copied(p: Product, name: str, gpu: Target) -> tuple[Product, Strategy]:
    """The product with one operand copied, and the copy: [batch, M or N, K]."""
    x: Operand = getattr(p, name)
    extent, batch = p.m if name == "a" else p.n, p.batch if x.batch else 1
    buffer = Buffer((batch, extent, p.k), p.out.dtype)
    view = Layout(p.out.dtype, buffer.shape, (x.batch, x.along, x.k), x.base)
    end = p.scratch_number()
    copy = min(copying(view, x.pointer, end, gpu), key=lambda strategy: strategy.cost)
    operand = Operand(end, p.k, 1, extent * p.k if x.batch else 0, 16)
    changed = {name: operand, "scratch": (*p.scratch, buffer)}
    return replace(p, **changed), copy  # type: ignore[arg-type]


def _plan(copies: list[Strategy], product: Candidate) -> Plan:
    """The plan with its copies before the product, which they precede in every call."""
    plan = product.build()
    *before, last = plan.steps
    steps: tuple[Step, ...] = (*before, *(copy.build() for copy in copies), last)
    return replace(plan, steps=steps)
