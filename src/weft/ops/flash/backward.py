"""Plans the gradients of attention.

The gradients of the scores serve all three results. Either the kernel of keys and values keeps them
in memory for that of the queries, or both compute them.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from weft.kernels import Kernel, cdiv
from weft.ops import source
from weft.ops.choose import Candidate, Request
from weft.ops.flash.forward import together
from weft.ops.flash.problem import (
    Operand,
    Operands,
    Problem,
    gradient_shapes,
    problem_of,
    result_strides,
)
from weft.ops.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.target import Target

DOUT, DLSE, QUERY, KEY, VALUE, OUT, LSE, MASK, STARTS = range(9)
"""Numbers of the inputs; the cumulative lengths are the last two."""
RESULTS = 10
FLOATS = 32
"""Queries and keys of a tile of floats."""
KEPT = 512 << 20
"""Bytes of gradients of scores that a call keeps. More heads take turns."""
UNITS = 256
"""Elements of their 16 x 16 tiles."""


class Tiles(NamedTuple):
    """Queries, keys and warps of the blocks of a kernel.

    queries, keys  of the kernels for their gradients
    sums           of the kernel that multiplies kept gradients of scores, and its stages
    reach          the share of the tensor cores' rate
    paired         two warps have the same keys, and one gradient each
    """

    queries: tuple[int, int, int]
    keys: tuple[int, int, int]
    sums: tuple[int, int, int, int]
    reach: float
    paired: bool = False


TILES = {
    32: Tiles((64, 64, 4), (64, 64, 4), (128, 64, 4, 3), 0.12),
    64: Tiles((128, 32, 4), (64, 64, 4), (128, 64, 4, 3), 0.2),
    96: Tiles((128, 32, 4), (64, 64, 4), (128, 64, 4, 3), 0.25),
    128: Tiles((128, 32, 4), (64, 64, 4), (128, 64, 4, 3), 0.28),
    192: Tiles((64, 32, 4), (32, 64, 4), (64, 32, 4, 3), 0.15),
    256: Tiles((64, 32, 4), (32, 64, 4), (64, 32, 4, 3), 0.15),
}
"""Tiles by head size."""
BOTH, OF_KEYS, OF_VALUES, PAIRED = range(4)
"""Which gradients the kernel of keys and values computes, as backward.cuh numbers them."""
FITTING = 128
"""The largest head whose gradients of keys and values fit into the registers of a warp."""


class Job(NamedTuple):
    """A backward call: the problem, its operands (dout, query, key, value, out) and results."""

    problem: Problem
    operands: Operands
    inputs: tuple[Operand, ...]
    results: tuple[Buffer, ...]
    dlse: Argument

    @property
    def delta(self) -> Pointer:
        """The number of the scratch with rowsum(dout * out)."""
        return Pointer(self.operands.first + len(self.operands.scratch))

    @property
    def kept(self) -> Pointer:
        """The number of the scratch with gradients of scores."""
        return Pointer(self.delta.number + 1)

    @property
    def key_heads(self) -> int:
        """Heads of keys in the batch."""
        return self.problem.batch * self.problem.heads // self.problem.group

    @property
    def tiles16(self) -> tuple[int, int]:
        """Tiles of 16 keys and of 16 queries: whole tiles of all kernels."""
        return 8 * cdiv(self.problem.keys, 128), 8 * cdiv(self.problem.rows, 128)

    @property
    def kept_size(self) -> int:
        """Gradients of scores for one head of keys."""
        return self.problem.group * UNITS * math.prod(self.tiles16)

    def structs(self, heads: int, turn: tuple[int, int] | None = None) -> tuple[bytes, bytes]:
        """The structs Problem and Gradients; `turn` are the first head of keys and their number."""
        dout, q, k, v, out = (x.strides for x in self.inputs)
        results = [n for made in self.results for n in self.problem.strides(made)]
        problem = self.problem.packed((q, k, v, out), together=heads)
        turn = turn or (0, self.key_heads)
        return problem, struct.pack("<12q4i", *dout, *results, *turn, *self.tiles16)

    def plan(self, steps: Sequence[Step], *kept: Buffer) -> Plan:
        made, lse = self.operands, self.problem.lse
        return Plan((*made.steps, *steps), self.results, (*made.scratch, lse, *kept))

    def query_arguments(self) -> tuple[Argument, ...]:
        dout, q, k, v, out = (x.pointer for x in self.inputs)
        p = self.problem
        return (q, k, v, p.mask_pointer, out, dout, Pointer(LSE), self.dlse, self.delta,
                Pointer(RESULTS), *p.starts)  # fmt: skip

    def key_arguments(self, keep: bool = False) -> tuple[Argument, ...]:
        dout, q, k, v, _ = (x.pointer for x in self.inputs)
        p = self.problem
        kept = () if p.dtype == torch.float32 else (self.kept if keep else None,)
        return (q, k, v, p.mask_pointer, dout, Pointer(LSE), self.delta, Pointer(RESULTS + 1),
                Pointer(RESULTS + 2), *kept, *p.starts)  # fmt: skip


def candidates(request: Request) -> list[Candidate]:
    """Candidates of a backward call."""
    ragged = request.inputs[STARTS] is not None
    operands = Operands(request, 3, ragged)
    p = problem_of(
        operands, (QUERY, KEY, VALUE), MASK, (STARTS, STARTS + 1) if ragged else None
    )  # fmt: skip
    inputs = tuple(operands.rows(n, p.lead) for n in (DOUT, QUERY, KEY, VALUE, OUT))
    dlse = None if request.inputs[DLSE] is None else Pointer(DLSE)
    job = Job(p, operands, inputs, _results(request, ragged), dlse)
    if 0 in (p.batch, p.heads, p.rows, p.keys, p.width):
        empty = tuple(b._replace(zeroed=True) for b in job.results)
        return [Candidate("empty", 0.0, "no scores", lambda: Plan((), empty))]
    gpu = request.target
    floats = p.dtype == torch.float32
    rate = 0.35 * gpu.fp32 if floats else 2 * gpu.tf32 * TILES[p.head].reach
    product = 2 * p.batch * p.heads * p.rows * p.keys * p.head * p.share / rate
    build = functools.partial(_floats if floats else _tiles, job, gpu)
    again = Candidate("scores again", 2 * gpu.launch + 7 * product, "two kernels", build)
    turns = _turns(job, gpu)
    if floats or not turns:
        return [again]
    launches = 1 + 2 * len(turns)
    moved = 4 * p.batch * p.heads * (p.rows * p.keys * p.share + 2 * p.rows * p.head)
    cost = launches * (gpu.launch + 2e-6) + 5 * product + moved / gpu.bandwidth
    why = f"{len(turns)} x {turns[0][1]} heads" if len(turns) > 1 else "all heads at once"
    return [again, Candidate("scores kept", cost, why, functools.partial(_kept, job, gpu, turns))]


def _turns(job: Job, gpu: Target) -> list[tuple[int, int]]:
    """The first head of keys and the number of heads of each turn; none if a head is too large."""
    heads = job.key_heads
    most = KEPT // (2 * job.kept_size)
    # A turn of few heads leaves SMs without a block.
    if most < heads and most * cdiv(job.problem.keys, 64) < 2 * gpu.sms:
        return []
    each = cdiv(heads, cdiv(heads, most))
    return [(first, min(each, heads - first)) for first in range(0, heads, each)]


def _results(request: Request, ragged: bool) -> tuple[Buffer, ...]:
    tensors = [request.inputs[n] for n in (QUERY, KEY, VALUE)]
    layouts = [t for t in tensors if t is not None]
    if ragged:
        return tuple(Buffer(t.shape, t.dtype) for t in layouts)
    q, k, v = layouts
    shapes = gradient_shapes(q.shape, k.shape, v.shape, request.options["enable_gqa"])
    return tuple(
        Buffer(shape, t.dtype, strides=result_strides(shape, t.shape, t.strides))
        for shape, t in zip(shapes, layouts, strict=True)
    )


def _kernel(job: Job, name: str, *words: object) -> Kernel:
    p = job.problem
    text = ", ".join(map(str, (source.ctype(p.dtype), p.head, *words)))
    return source.kernel("attention/backward.cu", f"{name}<{text}>")


def _wide(job: Job) -> str:
    return str(all(x.wide for x in job.inputs)).lower()


def _pitch(job: Job) -> int:
    """Bytes of a row in shared memory."""
    return 2 * (job.problem.head + 8)


def _tiles(job: Job, gpu: Target) -> Plan:
    p, shape = job.problem, TILES[job.problem.head].queries
    bm, bn, warps = shape
    shared = _pitch(job) * (2 * bm + 4 * bn)
    kernel = _kernel(job, "queries", *shape, p.mask, _wide(job))
    heads, tiles = p.batch * p.heads, cdiv(p.rows, bm)
    args = (*job.query_arguments(), *job.structs(together(p, gpu, tiles, heads)))
    queries = Step(kernel, (tiles * heads,), (32 * warps,), args, shared)
    return job.plan((queries, *_key_steps(job, gpu, (0, job.key_heads), keep=False)))


def _key_steps(job: Job, gpu: Target, turn: tuple[int, int], keep: bool) -> Iterator[Step]:
    """The kernels for keys and values of the heads of a turn."""
    p, shapes = job.problem, TILES[job.problem.head]
    bm, bn, warps = shapes.keys
    shared = _pitch(job) * (2 * bn + 4 * bm) + 16 * bm + (4 * bn * bm if shapes.paired else 0)
    tiles, heads = cdiv(p.keys, bn), turn[1]
    args = (*job.key_arguments(keep), *job.structs(together(p, gpu, tiles, heads), turn))
    one = (PAIRED if shapes.paired else BOTH,)
    for results in one if shapes.paired or p.head <= FITTING else (OF_KEYS, OF_VALUES):
        kept = str(keep and results != OF_VALUES).lower()
        kernel = _kernel(job, "keys", *shapes.keys, p.mask, _wide(job), results, kept)
        yield Step(kernel, (tiles * heads,), (32 * warps,), args, shared)


def _kept(job: Job, gpu: Target, turns: Sequence[tuple[int, int]]) -> Plan:
    p = job.problem
    dout, _, k, _, out = (x.pointer for x in job.inputs)
    rows = p.batch * p.heads * p.rows
    lanes = min(32, 1 << (p.head // 8 - 1).bit_length())
    steps = [
        Step(
            _kernel(job, "deltas", _wide(job)), (cdiv(rows * lanes, 256),), (256,),
            (out, dout, job.dlse, job.delta, *p.starts, *job.structs(1)),
        )
    ]  # fmt: skip
    shape = TILES[p.head].sums
    bm, bn, warps, stages = shape
    kernel = _kernel(job, "sums", *shape, _wide(job))
    shared = stages * (_pitch(job) * bn + 2 * bm * bn)
    for turn in turns:
        steps += _key_steps(job, gpu, turn, keep=True)
        tiles, heads = cdiv(p.rows, bm), turn[1] * p.group
        structs = job.structs(together(p, gpu, tiles, heads), turn)
        args = (job.kept, k, Pointer(RESULTS), *p.starts, *structs)
        steps.append(Step(kernel, (tiles * heads,), (32 * warps,), args, shared))
    return job.plan(steps, Buffer((turns[0][1] * job.kept_size,), p.dtype))


def _floats(job: Job, gpu: Target) -> Plan:
    p = job.problem
    shared = 4 * (4 * FLOATS * (p.head + 4) + 2 * FLOATS * (FLOATS + 4))
    steps = []
    for name, args, rows, heads in (
        ("queries", job.query_arguments(), p.rows, p.batch * p.heads),
        ("keys", job.key_arguments(), p.keys, job.key_heads),
    ):
        made = source.kernel("attention/single_backward.cu", f"{name}<{p.head}, {p.mask}>")
        tiles = cdiv(rows, FLOATS)
        args = (*args, *job.structs(together(p, gpu, tiles, heads)))
        steps.append(Step(made, (tiles * heads,), (256,), args, shared))
    return job.plan(steps)
