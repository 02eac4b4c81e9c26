"""Plans the gradients of attention: a kernel for queries, then one for keys and values."""

from __future__ import annotations

import functools
import struct
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


class Tiles(NamedTuple):
    """Queries, keys and warps of the blocks of both kernels.

    reach  the share of the tensor cores' rate
    """

    queries: tuple[int, int, int]
    keys: tuple[int, int, int]
    reach: float


TILES = {
    32: Tiles((64, 64, 4), (64, 64, 4), 0.12),
    64: Tiles((128, 32, 4), (64, 64, 4), 0.2),
    96: Tiles((128, 32, 4), (64, 64, 4), 0.25),
    128: Tiles((128, 32, 4), (64, 64, 4), 0.28),
    192: Tiles((64, 32, 4), (32, 64, 4), 0.15),
    256: Tiles((64, 32, 4), (32, 64, 4), 0.15),
}
"""Tiles by head size."""
BOTH = 128
"""The largest head whose gradients of keys and values fit into registers together."""


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

    def structs(self, heads: int) -> tuple[bytes, bytes]:
        """The structs Problem and Gradients."""
        dout, q, k, v, out = (x.strides for x in self.inputs)
        results = [n for made in self.results for n in self.problem.strides(made)]
        problem = self.problem.packed((q, k, v, out), together=heads)
        return problem, struct.pack("<12q", *dout, *results)

    def plan(self, queries: Step, keys: tuple[Step, ...]) -> Plan:
        made, lse = self.operands, self.problem.lse
        return Plan((*made.steps, queries, *keys), self.results, (*made.scratch, lse))

    def query_arguments(self) -> tuple[Argument, ...]:
        dout, q, k, v, out = (x.pointer for x in self.inputs)
        p = self.problem
        return (q, k, v, p.mask_pointer, out, dout, Pointer(LSE), self.dlse, self.delta,
                Pointer(RESULTS), *p.starts)  # fmt: skip

    def key_arguments(self) -> tuple[Argument, ...]:
        dout, q, k, v, _ = (x.pointer for x in self.inputs)
        p = self.problem
        return (q, k, v, p.mask_pointer, dout, Pointer(LSE), self.delta, Pointer(RESULTS + 1),
                Pointer(RESULTS + 2), *p.starts)  # fmt: skip


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
    rate = 0.35 * gpu.fp32 if p.dtype == torch.float32 else 2 * gpu.tf32 * TILES[p.head].reach
    work = 14 * p.batch * p.heads * p.rows * p.keys * p.head * p.share / rate
    build = functools.partial(_floats if p.dtype == torch.float32 else _tiles, job, gpu)
    return [Candidate("two passes", 2 * gpu.launch + work, "gradients summed in order", build)]


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


def _blocks(p: Problem, queries: int, keys: int) -> tuple[int, int]:
    """Blocks of both kernels."""
    return (
        cdiv(p.rows, queries) * p.heads * p.batch,
        cdiv(p.keys, keys) * p.heads // p.group * p.batch,
    )


def _tiles(job: Job, gpu: Target) -> Plan:
    p, tiles = job.problem, TILES[job.problem.head]
    wide = str(all(x.wide for x in job.inputs)).lower()
    ctype = source.ctype(p.dtype)
    pitch = 2 * (p.head + 8)
    heads = together(p, gpu)

    def kernel(name: str, shape: tuple[int, int, int], *flags: str) -> Kernel:
        words = ", ".join(map(str, (ctype, p.head, *shape, p.mask, wide, *flags)))
        return source.kernel("attention/backward.cu", f"{name}<{words}>")

    (bm, bn, warps), blocks = tiles.queries, _blocks(p, tiles.queries[0], tiles.keys[1])
    shared = pitch * (2 * bm + 4 * bn)
    args = (*job.query_arguments(), *job.structs(heads))
    queries = Step(kernel("queries", tiles.queries), (blocks[0],), (32 * warps,), args, shared)
    bm, bn, warps = tiles.keys
    shared = pitch * (2 * bn + 4 * bm) + 16 * bm
    args = (*job.key_arguments(), *job.structs(max(1, heads // p.group)))
    wanted = (("true", "true"),) if p.head <= BOTH else (("true", "false"), ("false", "true"))
    keys = tuple(
        Step(kernel("keys", tiles.keys, *which), (blocks[1],), (32 * warps,), args, shared)
        for which in wanted
    )
    return job.plan(queries, keys)


def _floats(job: Job, gpu: Target) -> Plan:
    p = job.problem
    blocks = _blocks(p, FLOATS, FLOATS)
    heads = together(p, gpu)
    shared = 4 * (4 * FLOATS * (p.head + 4) + 2 * FLOATS * (FLOATS + 4))
    steps = []
    for name, args, grid, group in (
        ("queries", job.query_arguments(), blocks[0], 1),
        ("keys", job.key_arguments(), blocks[1], p.group),
    ):
        made = source.kernel("attention/single_backward.cu", f"{name}<{p.head}, {p.mask}>")
        args = (*args, *job.structs(max(1, heads // group)))
        steps.append(Step(made, (grid,), (256,), args, shared))
    return job.plan(steps[0], (steps[1],))
