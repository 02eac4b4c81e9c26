"""Plans the gradients of attention.

The gradients of the scores serve all three results. Either the kernel of keys and values keeps them
in memory for that of the queries, or both compute them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.choose import Candidate, Request
from weft.ops.flash.forward import together
from weft.ops.flash.gradients import (
    FLOATS,
    KEY,
    LSE,
    QUERY,
    STARTS,
    VALUE,
    Job,
    described,
    float_bytes,
)
from weft.ops.flash.problem import gradient_shapes, result_strides
from weft.ops.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.target import Target

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
    32: Tiles((64, 64, 4), (64, 64, 4), (128, 64, 4, 3), 0.12),
    64: Tiles((128, 32, 4), (64, 64, 4), (128, 64, 4, 3), 0.2),
    96: Tiles((128, 32, 4), (64, 64, 4), (128, 64, 4, 3), 0.25),
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
    job = job._replace(queries=TILES[p.head].keys[0])
    if 0 in (p.batch, p.heads, p.rows, p.keys, p.width):
        empty = tuple(b._replace(zeroed=True) for b in job.results)
        return [Candidate("empty", 0.0, "no scores", lambda: Plan((), empty))]
    gpu = request.target
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


def _query_arguments(job: Job) -> tuple[Argument, ...]:
    dout, q, k, v, out = (x.pointer for x in job.inputs)
    p = job.problem
    return (q, k, v, p.mask_pointer, out, dout, Pointer(LSE), job.dlse, job.delta,
            Pointer(RESULTS), *p.starts)  # fmt: skip


def _key_arguments(job: Job, keep: bool = False) -> tuple[Argument, ...]:
    dout, q, k, v, _ = (x.pointer for x in job.inputs)
    p = job.problem
    kept = () if job.floats else (job.kept if keep else None,)
    return (q, k, v, p.mask_pointer, dout, Pointer(LSE), job.delta, Pointer(RESULTS + 1),
            Pointer(RESULTS + 2), *kept, *p.starts)  # fmt: skip


def _tiles(job: Job, gpu: Target) -> Plan:
    p, shape = job.problem, TILES[job.problem.head].queries
    bm, bn, warps = shape
    shared = job.pitch * (2 * bm + 4 * bn)
    kernel = job.kernel("queries", *shape, p.mask, p.drops)
    heads, tiles = p.batch * p.heads, cdiv(p.rows, bm)
    structs = job.structs(together(p, gpu, tiles, heads))
    args = (*_query_arguments(job), *structs, *p.random)
    queries = Step(kernel, (tiles * heads,), (32 * warps,), args, shared)
    keys = _key_step(job, gpu, (0, job.key_heads), keep=False)
    return job.plan((queries, keys), job.results)


def _key_step(job: Job, gpu: Target, turn: tuple[int, int], keep: bool) -> Step:
    """The kernel for keys and values of the heads of a turn."""
    p, shapes = job.problem, TILES[job.problem.head]
    bm, bn, warps = shapes.keys
    shared = job.pitch * (2 * bn + 4 * bm) + 16 * bm + (4 * bn * bm if shapes.paired else 0)
    tiles, heads = cdiv(p.keys, bn), turn[1]
    structs = job.structs(together(p, gpu, tiles, heads), turn)
    args = (*_key_arguments(job, keep), *structs, *p.random)
    flags = [str(f).lower() for f in (shapes.paired, keep)]
    kernel = job.kernel("keys", *shapes.keys, p.mask, *flags, p.drops)
    return Step(kernel, (tiles * heads,), (32 * warps,), args, shared)


def _kept(job: Job, gpu: Target, turns: Sequence[tuple[int, int]]) -> Plan:
    p = job.problem
    k = job.inputs[2].pointer
    steps = [job.delta_step()]
    shape = TILES[p.head].sums
    bm, bn, warps, stages = shape
    kernel = job.kernel("sums", *shape)
    shared = stages * (job.pitch * bn + 2 * bm * bn)
    for turn in turns:
        steps.append(_key_step(job, gpu, turn, keep=True))
        tiles, heads = cdiv(p.rows, bm), turn[1] * p.group
        structs = job.structs(together(p, gpu, tiles, heads), turn)
        args = (job.kept, k, Pointer(RESULTS), *p.starts, *structs)
        steps.append(Step(kernel, (tiles * heads,), (32 * warps,), args, shared))
    return job.plan(steps, job.results, Buffer((turns[0][1] * job.kept_size,), p.dtype))


def _floats(job: Job, gpu: Target) -> Plan:
    p = job.problem
    shared = float_bytes(job)
    steps = []
    for name, args, rows, heads in (
        ("queries", _query_arguments(job), p.rows, p.batch * p.heads),
        ("keys", _key_arguments(job), p.keys, job.key_heads),
    ):
        made = job.kernel(name, p.mask, p.drops)
        tiles = cdiv(rows, FLOATS)
        args = (*args, *job.structs(together(p, gpu, tiles, heads)), *p.random)
        steps.append(Step(made, (tiles * heads,), (256,), args, shared))
    return job.plan(steps, job.results)
