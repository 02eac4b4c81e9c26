"""What the kernels of a forward call of attention share: operands, results, the order of work."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.attention.problem import Operand, Operands, Problem

RESIDENT = 2
"""Blocks that an SM holds of most kernels."""


class Job(NamedTuple):
    """A forward call: the problem, its operands, and the numbers of its results."""

    problem: Problem
    q: Operand
    k: Operand
    v: Operand
    operands: Operands
    out: Pointer
    lse: Pointer | None

    @property
    def pointers(self) -> tuple[Argument, ...]:
        """The tensors that every kernel takes first."""
        p = self.problem
        return (self.q.pointer, self.k.pointer, self.v.pointer, p.mask_pointer, self.out,
                self.lse, *p.starts)  # fmt: skip

    @property
    def strides(self) -> tuple[tuple[int, int, int], ...]:
        """Of query, key, value and result."""
        out = self.problem.strides(self.problem.out)
        return self.q.strides, self.k.strides, self.v.strides, out

    def plan(self, steps: tuple[Step, ...], scratch: tuple[Buffer, ...] = ()) -> Plan:
        p, made = self.problem, self.operands
        outputs = (p.out,) if self.lse is None else (p.out, p.lse)
        return Plan((*made.steps, *steps), outputs, (*made.scratch, *scratch))


def together(p: Problem, gpu: Target, tiles: int, heads: int) -> int:
    """How many of a launch's heads, of `tiles` tiles each, blocks work on at a time.

    L2 should hold their keys and values. Under a causal mask the first tiles take longest, so that
    a few heads at the end would keep few SMs busy: all heads take turns in equal numbers, which
    have work for all SMs for as long as the longest tile takes.
    """
    size = 2 * p.keys * p.head * int(p.dtype.itemsize)
    fit = max(1, gpu.l2 // 2 // max(size, 1)) * p.group
    least = cdiv(2 * RESIDENT * gpu.sms, tiles + 1) if p.causal else 1
    return cdiv(heads, max(1, heads // max(fit, least)))
