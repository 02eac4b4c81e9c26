"""Plans the gradients of attention.

The gradients of the scores serve all three results. Either the kernel of keys and values keeps them
in memory for that of the queries, or both compute them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Argument, Buffer, Counters, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.attention import group_gradients
from weft.ops.families.attention.gradients import (
    KEY,
    LSE,
    QUERY,
    STARTS,
    VALUE,
    Job,
    described,
    float_bytes,
    float_side,
    float_stages,
)
from weft.ops.families.attention.job import together
from weft.ops.families.attention.parts import Result, Stream, join, scratch
from weft.ops.families.attention.problem import gradient_shapes, result_strides

RESULTS = 11
KEPT = 512 << 20
"""Bytes of gradients of scores that a call keeps. More heads take turns."""


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
    16: Tiles((64, 64, 4), (64, 64, 4), (128, 64, 4, 3), 0.14),
    32: Tiles((64, 64, 4), (64, 64, 4), (128, 64, 4, 3), 0.17),
    48: Tiles((128, 32, 4), (64, 64, 4), (128, 64, 4, 3), 0.18),
    64: Tiles((128, 32, 4), (64, 64, 4), (128, 64, 4, 3), 0.2),
    80: Tiles((128, 32, 4), (64, 64, 4), (128, 64, 4, 3), 0.22),
    96: Tiles((128, 32, 4), (64, 64, 4), (128, 64, 4, 3), 0.3),
    128: Tiles((128, 32, 4), (48, 64, 4), (128, 64, 4, 3), 0.29, True),
    192: Tiles((64, 32, 4), (32, 32, 4), (64, 32, 4, 3), 0.22, True),
    256: Tiles((64, 32, 4), (32, 32, 4), (64, 32, 4, 3), 0.22, True),
}
"""Tiles by head size."""


def candidates(request: Request) -> list[Candidate]:
    """Candidates of a backward call."""
    ragged = request.inputs[STARTS] is not None
    job = described(request, 3, ragged)._replace(results=_results(request, ragged))
    p, floats = job.problem, job.floats
    job = job._replace(queries=float_side(job) if floats else TILES[p.head].keys[0])
    if 0 in (p.batch, p.heads, p.rows, p.keys, p.width):
        empty = tuple(b._replace(zeroed=True) for b in job.results)
        return [Candidate("empty", 0.0, "no scores", lambda: Plan((), empty))]
    work = Work(job, request.target)
    again = work.candidate("scores again", _again, work.queries, 0.0)
    made = [again, *_by_groups(work)]
    turns = _turns(job, request.target)
    if not turns:
        return made
    size = 2 * p.dtype.itemsize
    moved = size * p.batch * p.heads * (p.rows * p.keys * p.share + 2 * p.rows * p.head)
    launches = (2 * len(turns) - 1) * work.gpu.launch
    build = functools.partial(_kept, turns=turns)
    more = launches + moved / work.gpu.bandwidth
    return [*made, work.candidate("scores kept", build, work.sums, more)]


def _turns(job: Job, gpu: Target) -> list[tuple[int, int]]:
    """The first head of keys and the number of heads of each turn; none if a head is too large."""
    heads = job.key_heads
    most = KEPT // (job.problem.dtype.itemsize * job.kept_size)
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


class Work:
    """The kernels of a backward call.

    queries, keys  the kernels for their gradients
    sums           the kernel that multiplies kept gradients of scores
    """

    def __init__(self, job: Job, gpu: Target) -> None:
        self.job, self.gpu = job, gpu
        p, tiles = job.problem, TILES[job.problem.head]
        side = (float_side(job), float_side(job), 8)
        self.query_tile, self.key_tile = (side, side) if job.floats else (tiles.queries, tiles.keys)
        self.sum_tile = (*side, 1) if job.floats else tiles.sums
        self.rate = 0.35 * gpu.fp32 if job.floats else 2 * gpu.tf32 * tiles.reach
        heads, own = p.batch * p.heads, p.rows * p.head
        self.queries = self._stream(3, self.query_tile[:2], heads, p.rows, p.keys, heads * own)
        self.sums = self._stream(1, self.sum_tile[:2], heads, p.rows, p.keys, heads * own)
        sums = 2 * job.key_heads * p.keys * p.head
        bm, bn, _ = self.key_tile
        self.keys = self._stream(4, (bn, bm), job.key_heads, p.keys, p.rows * p.group, sums)

    def _stream(
        self, products: int, tile: tuple[int, int], heads: int, rows: int, past: int, sums: int
    ) -> Stream:
        """The kernel whose blocks have tile[0] of `rows` rows, and stream `past` rows."""
        p = self.job.problem
        work = 2 * products * tile[0] * past * p.head * p.share
        blocks = cdiv(rows, tile[0]) * heads
        return Stream(blocks, cdiv(past, tile[1]), work * self.gpu.sms / self.rate, sums)

    def parts(self, stream: Stream) -> int:
        """Into how many parts a kernel splits what it streams."""
        return 1 if self.job.problem.starts[0] is not None else stream.parts(self.gpu)

    def candidate(
        self, name: str, build: Callable[[Work], Plan], of_queries: Stream, more: float
    ) -> Candidate:
        """A candidate with that kernel for the queries, which takes `more` seconds."""
        cost, why = 2 * self.gpu.launch + more + self.job.operands.cost, ["two kernels"]
        for what, stream in (("keys", of_queries), ("queries", self.keys)):
            parts = self.parts(stream)
            cost += stream.time(parts, self.gpu)
            if parts > 1:
                why.append(f"{what} in {parts} parts")
        return Candidate(name, cost, ", ".join(why), functools.partial(build, self))


class Steps:
    """The launches and the scratch of a plan."""

    def __init__(self, work: Work) -> None:
        self.work, self.job = work, work.job
        self.made: list[Step] = []
        self.scratch: list[Buffer] = []

    def buffer(self, made: Buffer) -> Pointer:
        """The pointer of new scratch."""
        self.scratch.append(made)
        return Pointer(self.job.delta.number + len(self.scratch))

    def split(self, stream: Stream, single: bool) -> tuple[int, Argument]:
        """The number of parts of a kernel, and where its sums are; `single`: no turns."""
        parts = self.work.parts(stream) if single else 1
        return parts, self.buffer(scratch(stream, parts)) if parts > 1 else None

    def join(self, sums: Argument, parts: int, *numbers: int) -> None:
        """Adds up the sums of the results of these numbers."""
        if not isinstance(sums, Pointer):
            return
        p, made = self.job.problem, []
        for n in numbers:
            result = self.job.results[n]
            heads, rows = result.shape[-3] if len(result.shape) > 2 else 1, result.shape[-2]
            sizes = (p.batch, heads, rows, result.shape[-1])
            made.append(Result(Pointer(RESULTS + n), p.strides(result), sizes, p.dtype))
        self.made.append(join(sums, p.head, parts, *made))

    def plan(self) -> Plan:
        return self.job.plan(self.made, self.job.results, self.scratch)


def _again(work: Work) -> Plan:
    """Both kernels compute scores."""
    job, p, steps = work.job, work.job.problem, Steps(work)
    dout, q, k, v, out = (x.pointer for x in job.inputs)
    bm, bn, warps = work.query_tile
    words = (bm, p.mask, p.drops) if job.floats else (bm, bn, warps, p.mask, p.drops)
    shared = float_bytes(job) if job.floats else job.pitch * (2 * bm + 4 * bn)
    parts, sums = steps.split(work.queries, single=True)
    heads, tiles = p.batch * p.heads, cdiv(p.rows, bm)
    structs = job.structs(together(p, work.gpu, tiles, heads), parts=parts)
    args = (q, k, v, p.mask_pointer, out, dout, Pointer(LSE), job.dlse, job.delta,
            Pointer(RESULTS), sums, *p.starts, *structs, *p.random)  # fmt: skip
    kernel = job.kernel("queries", *words)
    steps.made.append(Step(kernel, (tiles * heads * parts,), (32 * warps,), args, shared))
    steps.join(sums, parts, 0)
    _key_step(steps, (0, job.key_heads), None)
    return steps.plan()


def _by_groups(work: Work) -> list[Candidate]:
    """The candidate whose kernels are for warpgroups, where there is one."""
    job, gpu = work.job, work.gpu
    sides = group_gradients.sides(job, gpu)
    if not sides:
        return []
    cost, why = 3 * gpu.launch + 4e-6 + job.operands.cost, ["three kernels"]
    for side in sides:
        stream = group_gradients.stream(job, side, gpu)
        parts = work.parts(stream)
        cost += stream.time(parts, gpu)
        if parts > 1:
            why.append(f"{'queries' if side.keys else 'keys'} in {parts} parts")
    build = functools.partial(_groups, work, sides)
    return [Candidate("scores again, warpgroups", cost, ", ".join(why), build)]


def _groups(work: Work, sides: Sequence[group_gradients.Side]) -> Plan:
    """Both kernels compute scores, by warpgroups."""
    job, p, steps = work.job, work.job.problem, Steps(work)
    dout, q, k, v, _ = (x.pointer for x in job.inputs)
    steps.made.append(job.delta_step())
    for side in sides:
        stream = group_gradients.stream(job, side, work.gpu)
        parts, sums = steps.split(stream, single=True)
        heads = job.key_heads if side.keys else p.batch * p.heads
        at_once = together(p, work.gpu, stream.blocks // heads, heads)
        numbers = (1, 2) if side.keys else (0,)
        results = [Pointer(RESULTS + n) for n in numbers]
        args = (q, k, v, p.mask_pointer, dout, Pointer(LSE), job.delta, results[0], results[-1],
                sums, *p.starts, Counters(), *job.structs(at_once, parts=parts))  # fmt: skip
        grid = (min(stream.blocks * parts, work.gpu.sms),)
        kernel, block = group_gradients.kernel(job, side), (group_gradients.THREADS,)
        steps.made.append(Step(kernel, grid, block, args, side.shared(p.head)))
        steps.join(sums, parts, *numbers)
    return steps.plan()


def _key_step(steps: Steps, turn: tuple[int, int], kept: Argument) -> None:
    """The kernel for keys and values of the heads of a turn."""
    work, job, p = steps.work, steps.job, steps.job.problem
    dout, q, k, v, _ = (x.pointer for x in job.inputs)
    bm, bn, warps = work.key_tile
    paired = not job.floats and TILES[p.head].paired
    parts, sums = steps.split(work.keys, single=turn[1] == job.key_heads)
    tiles = cdiv(p.keys, bn)
    structs = job.structs(together(p, work.gpu, tiles, turn[1]), turn, parts)
    keep = str(kept is not None).lower()
    if job.floats:
        stages = float_stages(job)
        kernel, shared = (
            job.kernel("keys", bm, stages, p.mask, keep, p.drops),
            float_bytes(job, stages),
        )
    else:
        words = (bm, bn, warps, p.mask, str(paired).lower(), keep, p.drops)
        kernel = job.kernel("keys", *words)
        shared = job.pitch * (2 * bn + 4 * bm) + 16 * bm + (4 * bn * bm if paired else 0)
    args = (q, k, v, p.mask_pointer, dout, Pointer(LSE), job.delta, Pointer(RESULTS + 1),
            Pointer(RESULTS + 2), kept, sums, *p.starts, *structs, *p.random)  # fmt: skip
    grid = (tiles * turn[1] * parts,)
    steps.made.append(Step(kernel, grid, (32 * warps,), args, shared))
    steps.join(sums, parts, 1, 2)


def _kept(work: Work, turns: Sequence[tuple[int, int]]) -> Plan:
    """The kernel of keys and values keeps gradients of scores for that of the queries."""
    job, p, steps = work.job, work.job.problem, Steps(work)
    bm, bn, warps, stages = work.sum_tile
    kernel = job.kernel("sums", *((bm,) if job.floats else work.sum_tile))
    scores = 4 * bm * (bn + 4) if job.floats else 2 * bm * bn
    shared = stages * (job.pitch * bn + scores)
    kept = steps.buffer(Buffer((turns[0][1] * job.kept_size,), p.dtype))
    steps.made.append(job.delta_step())
    for turn in turns:
        _key_step(steps, turn, kept)
        parts, sums = steps.split(work.sums, single=len(turns) == 1)
        tiles, heads = cdiv(p.rows, bm), turn[1] * p.group
        structs = job.structs(together(p, work.gpu, tiles, heads), turn, parts)
        args = (kept, job.inputs[2].pointer, Pointer(RESULTS), sums, *p.starts, *structs)
        steps.made.append(Step(kernel, (tiles * heads * parts,), (32 * warps,), args, shared))
        steps.join(sums, parts, 0)
    return steps.plan()
