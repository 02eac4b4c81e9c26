"""Describe a backward call of attention for its kernels: operands, scratch, rounds of heads."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import torch

from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.choose import Request
from weft.ops.core.model import BLOCK_RESERVED
from weft.ops.core.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.families.attention.backward.model import StreamingKernel
from weft.ops.families.attention.problem import (
    AttentionOperands,
    Expression,
    Operand,
    Problem,
    problem_of,
)
from weft.ops.families.attention.structs import Joined

DOUT, DLSE, QUERY, KEY, VALUE, OUT, LSE, MASK, STATE, STARTS = range(10)
"""Numbers of the inputs; the cumulative lengths are the last two."""


class AttentionBackwardJob(NamedTuple):
    """A backward call: the problem, its operands (dout, query, key, value, out) and results.

    results  the gradients of query, key and value; none for that of a mask
    queries  of a tile of the kernel that stores gradients of scores
    places   bytes before each gradient in the one output that has them all; none: each is an output
    """

    problem: Problem
    operands: AttentionOperands
    inputs: tuple[Operand, ...]
    results: tuple[Buffer, ...]
    dlse: Argument
    queries: int = 16
    expression: Expression = Expression()
    places: tuple[int, ...] = ()

    @property
    def delta(self) -> Pointer:
        """The number of the scratch with rowsum(dout * out)."""
        return Pointer(self.operands.first + len(self.operands.scratch))

    def result(self, number: int) -> Pointer:
        """The address of the gradient of query, key or value."""
        first = len(self.operands.request.inputs)
        return Pointer(first, self.places[number]) if self.places else Pointer(first + number)

    @property
    def key_heads(self) -> int:
        """Heads of keys in the batch."""
        return self.problem.batch * self.problem.heads // self.problem.group

    @property
    def half(self) -> bool:
        """True if a causal mask starts at the first query and key: half of the tiles are hidden."""
        return self.problem.causal and self.problem.starts[0] is None

    @property
    def side(self) -> int:
        """Queries and keys of a tile of stored gradients of scores."""
        return fp32_side(self) if self.fp32 else 16

    @property
    def row_tiles(self) -> int:
        """Such tiles for all queries, in whole tiles of the kernel that writes them."""
        return cdiv(self.problem.rows, self.queries) * self.queries // self.side

    @property
    def tiles(self) -> int:
        """Tiles of gradients of scores for one head of queries."""
        rows, keys = self.row_tiles, cdiv(self.problem.keys, self.side)
        if not self.half:
            return rows * keys
        seen = min(rows, keys)
        return seen * rows - seen * (seen - 1) // 2

    @property
    def stored_size(self) -> int:
        """Gradients of scores for one head of keys."""
        return self.problem.group * self.side**2 * self.tiles

    def structs(
        self, at_once: int, heads: tuple[int, int] | None = None, parts: int = 1
    ) -> tuple[bytes, bytes]:
        """The structs Problem and Gradients; `heads`: the first head of keys, and their number."""
        dout, q, k, v, out = (x.strides for x in self.inputs)
        results = [n for made in self.results for n in self.problem.strides(made)]
        results += [0] * (9 - len(results))
        problem = self.problem.packed(
            (q, k, v, out), parts=parts, at_once=at_once, elementwise=self.operands.elementwise
        )
        stored = (*(heads or (0, self.key_heads)), self.row_tiles, self.half, self.tiles)
        return problem, struct.pack("<12q4iq", *dout, *results, *stored)

    def plan(
        self, steps: Sequence[Step], outputs: tuple[Buffer, ...], more: Sequence[Buffer] = ()
    ) -> Plan:
        """The plan of these steps; `more` is the scratch that follows that of `delta`."""
        made, lse = self.operands, self.problem.lse
        return Plan((*made.steps, *steps), outputs, (*made.scratch, lse, *more))

    @property
    def fp32(self) -> bool:
        """True for float32, which has kernels of its own."""
        return self.problem.dtype is torch.float32

    @property
    def pitch(self) -> int:
        """Bytes of a row in shared memory."""
        return 4 * (self.problem.head + 4) if self.fp32 else 2 * (self.problem.head + 8)

    def kernel(self, name: str, *words: object) -> Kernel:
        """A kernel of the dtype and the head size."""
        p = self.problem
        first = (p.head,) if self.fp32 else (source.ctype(p.dtype), p.head)
        text = ", ".join(map(str, (*first, *words)))
        file = "fp32_backward" if self.fp32 else "backward"
        return source.kernel(f"attention/{file}.cu", f"{name}<{text}>", **self.expression.macros)

    def delta_step(self) -> Step:
        """The step that computes rowsum(dout * out)."""
        p, (dout, *_, out) = self.problem, self.inputs
        lanes = 16 if self.fp32 else min(32, 1 << (p.head // 8 - 1).bit_length())
        kernel = self.kernel("deltas")
        blocks = cdiv(p.batch * p.heads * p.rows * lanes, 256)
        args = (out.pointer, dout.pointer, self.dlse, self.delta, *p.starts, *self.structs(1))
        return Step(kernel, (blocks,), (256,), args)


def described(request: Request, outputs: int, ragged: bool) -> AttentionBackwardJob:
    """The job of a request, without results."""
    operands = AttentionOperands(request, outputs, ragged)
    starts = (STARTS, STARTS + 1) if ragged else None
    p = problem_of(operands, (QUERY, KEY, VALUE), MASK, starts, STATE)
    inputs = tuple(operands.rows(n, p) for n in (DOUT, QUERY, KEY, VALUE, OUT))
    dlse = None if request.inputs[DLSE] is None else Pointer(DLSE)
    return AttentionBackwardJob(p, operands, inputs, (), dlse)


def fp32_side(job: AttentionBackwardJob) -> int:
    """Queries and keys of a tile of floats: no more than twice as many as there are, that fit."""
    fewest = min(job.problem.rows, job.problem.keys)
    room = job.operands.request.target.shared_per_block
    fit = (n for n in (64, 32) if fewest > n // 2 and _bytes(job.pitch, n, 1) <= room)
    return next(fit, 16)


def fp32_stages(job: AttentionBackwardJob) -> int:
    """Stages of queries of the kernel for keys: 2 where an SM holds as many blocks as with 1."""
    gpu, registers = job.operands.request.target, 2 if job.problem.head <= 64 else 1
    one, two = (_bytes(job.pitch, fp32_side(job), stages) for stages in (1, 2))
    resident = [min(registers, gpu.shared_per_sm // (n + BLOCK_RESERVED)) for n in (one, two)]
    return 2 if two <= gpu.shared_per_block and resident[0] == resident[1] else 1


def fp32_bytes(job: AttentionBackwardJob, stages: int = 1) -> int:
    """Shared memory of the kernels for floats."""
    return _bytes(job.pitch, fp32_side(job), stages)


def _bytes(pitch: int, side: int, stages: int) -> int:
    """Bytes of four tiles of rows, two of them in stages, and of two tiles of scores."""
    return (2 + 2 * stages) * side * pitch + 2 * 4 * side * (side + 4)


# ---- sums of gradients whose streamed rows are split among blocks ------------------------------
class Result(NamedTuple):
    """A gradient [batch, heads, rows, width], whose strides are of the first three."""

    pointer: Pointer
    strides: tuple[int, int, int]
    sizes: tuple[int, int, int, int]
    dtype: torch.dtype


def scratch(stream: StreamingKernel, parts: int) -> Buffer:
    """The buffer for the sums of all parts."""
    return Buffer((parts * stream.sums,), torch.float32)


def join(sums: Pointer, head: int, parts: int, *results: Result) -> Step:
    """The step that adds up sums of rows of `head`: of one result, or of two in a row."""
    pointers: list[Argument] = [None, None]
    text, vectors = [bytes(Joined.sizeof())] * 2, 0
    for i, (pointer, strides, (batch, heads, rows, width), _) in enumerate(results):
        each = batch * heads * rows * head // 4
        pointers[i] = pointer
        text[i] = Joined(strides, parts, heads, rows, head, width, each).pack()
        vectors += each
    name = f"join<{source.ctype(results[0].dtype)}>"
    kernel = source.kernel("attention/join.cu", name, **Joined.define())
    return Step(kernel, (cdiv(vectors, 256),), (256,), (sums, *pointers, *text))
