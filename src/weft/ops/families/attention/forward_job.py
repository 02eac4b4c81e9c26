"""Operands and results that the kernels of a forward call of attention share."""

from __future__ import annotations

from typing import NamedTuple

from weft.ops.core.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.families.attention.problem import AttentionOperands, Expression, Operand, Problem


class Pages(NamedTuple):
    """Keys and values in pages: the table of pages, the keys of a page, pages of a sequence."""

    table: Pointer
    size: int
    most: int


class QuantisedPages(NamedTuple):
    """Pages of int8, and the scales of keys and values with the strides of pages, heads and keys."""

    table: Pointer
    size: int
    most: int
    key_scale: Pointer
    value_scale: Pointer
    key_page: int
    key_head: int
    key_row: int
    value_page: int
    value_head: int
    value_row: int


class AttentionJob(NamedTuple):
    """A forward call: the problem, its operands, and the numbers of its results."""

    problem: Problem
    q: Operand
    k: Operand
    v: Operand
    operands: AttentionOperands
    out: Pointer
    lse: Pointer | None
    pages: Pages | QuantisedPages | None = None
    expression: Expression = Expression()

    @property
    def pointers(self) -> tuple[Argument, ...]:
        """The tensors that every kernel takes first."""
        p = self.problem
        operands = (self.q.pointer, self.k.pointer, self.v.pointer, p.mask_pointer)
        return (*operands, self.out, self.lse, *p.starts)

    @property
    def strides(self) -> tuple[tuple[int, int, int], ...]:
        """Strides of query, key, value and result."""
        out = self.problem.strides(self.problem.out)
        return self.q.strides, self.k.strides, self.v.strides, out

    def plan(self, steps: tuple[Step, ...], scratch: tuple[Buffer, ...] = ()) -> Plan:
        """The plan of these steps, after those that copy operands."""
        p, made = self.problem, self.operands
        outputs = (p.out,) if self.lse is None else (p.out, p.lse)
        return Plan((*made.steps, *steps), outputs, (*made.scratch, *scratch))
