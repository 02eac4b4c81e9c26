"""The steps and buffers of a plan whose kernels need contiguous operands."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from weft.ops.core.choose import Request
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step, partials
from weft.ops.families.elementwise.copies import contiguous


@dataclass
class Operands:
    """The tensors of a call: adds copies of inputs, and scratch.

    steps  copies before the kernels
    after  copies of results
    cost   modelled seconds of all copies
    """

    request: Request
    outputs: tuple[Buffer, ...]
    steps: list[Step] = field(default_factory=list)
    after: list[Step] = field(default_factory=list)
    scratch: list[Buffer] = field(default_factory=list)
    cost: float = 0.0

    def output(self, index: int) -> Pointer:
        return Pointer(len(self.request.inputs) + index)

    def buffer(self, buffer: Buffer) -> Pointer:
        """A new scratch buffer."""
        self.scratch.append(buffer)
        return Pointer(len(self.request.inputs) + len(self.outputs) + len(self.scratch) - 1)

    def shared(self, blocks: int) -> Argument:
        """Memory for two numbers of each block, which the last block joins."""
        found = partials(8 * blocks)
        return self.buffer(Buffer((blocks, 2), torch.float32)) if found is None else found

    def dense(self, number: int) -> tuple[Argument, Layout | None]:
        """An input as a contiguous tensor, copied if needed; nothing if it was omitted."""
        x = self.request.inputs[number]
        return (None, None) if x is None else self.as_dense(number, x)

    def as_dense(self, number: int, x: Layout) -> tuple[Argument, Layout | None]:
        """An input of layout `x`, whose dimensions may be permuted, as a contiguous tensor."""
        if x.contiguous:
            return Pointer(number), x
        made = Buffer(x.shape, x.dtype)
        end = self.buffer(made)
        copy = contiguous(x, Pointer(number), end, self.request.target)
        self.steps += copy.steps
        self.cost += copy.cost
        return end, Layout(x.dtype, x.shape, made.steps, 16)

    def plan(self, *steps: Step) -> Plan:
        return Plan((*self.steps, *steps, *self.after), self.outputs, tuple(self.scratch))
