"""Operands and results that the kernels of a forward call of attention share."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from weft.ops.core.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.families.attention.model import ForwardTile
from weft.ops.families.attention.problem import AttentionOperands, Expression, Operand, Problem


class Quantised(NamedTuple):
    """Scales of keys and values of int8, and their strides of pages, heads and keys."""

    key: Pointer
    value: Pointer
    of_key: tuple[int, ...]
    of_value: tuple[int, ...]


class Pages(NamedTuple):
    """Keys and values in pages: the table of pages, the keys of a page, pages of a sequence."""

    table: Pointer
    size: int
    most: int
    quantised: Quantised | None = None

    def has_steps_of(self, keys: int) -> bool:
        """True if no step of so many keys is in two pages."""
        return self.most == 1 or self.size % keys == 0

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The last arguments of the kernels of paged.cu."""
        made = (self.table, self.size, self.most)
        if self.quantised is None:
            return made
        key, value, of_key, of_value = self.quantised
        return (*made, key, value, *of_key, *of_value)


class AttentionJob(NamedTuple):
    """A forward call: the problem, its operands, and the numbers of its results."""

    problem: Problem
    q: Operand
    k: Operand
    v: Operand
    operands: AttentionOperands
    out: Pointer
    lse: Pointer | None
    pages: Pages | None = None
    expression: Expression = Expression()

    @property
    def is_invariant(self) -> bool:
        """True if no choice may depend on the number of sequences."""
        return self.operands.request.invariant

    @property
    def modelled(self) -> Problem:
        """The problem whose time is modelled: of an invariant call, that of one sequence."""
        return dataclasses.replace(self.problem, batch=1) if self.is_invariant else self.problem

    @property
    def repeated(self) -> int:
        """Launched tiles for each tile of the modelled problem."""
        return self.problem.batch if self.is_invariant else 1

    @property
    def is_quantised(self) -> bool:
        """True for keys and values of int8."""
        return self.pages is not None and self.pages.quantised is not None

    def staged(self, tile: ForwardTile) -> ForwardTile:
        """A tile as its kernel has it: the next keys and values of int8 wait in registers."""
        return tile._replace(stages=1) if self.is_quantised else tile

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
