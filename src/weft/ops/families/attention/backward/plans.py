"""Plan the gradients of attention.

The gradients of the scores serve all three results. Either the kernel of keys and values stores
them in memory for that of the queries, or both compute them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Argument, Buffer, Counters, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.attention.backward import model, tma, tma_model, warpgroup
from weft.ops.families.attention.backward.job import (
    KEY,
    LSE,
    QUERY,
    STARTS,
    VALUE,
    AttentionBackwardJob,
    Result,
    described,
    fp32_bytes,
    fp32_side,
    fp32_stages,
    join,
    scratch,
)
from weft.ops.families.attention.backward.model import BlockTile, StreamingKernel, WarpgroupKernel
from weft.ops.families.attention.model import heads_at_once
from weft.ops.families.attention.problem import gradient_shapes, result_strides


def candidates(request: Request) -> list[Candidate]:
    """Candidates of a backward call."""
    ragged = request.inputs[STARTS] is not None
    return of_job(described(request, 3, ragged)._replace(results=results(request, ragged)))


def of_job(job: AttentionBackwardJob) -> list[Candidate]:
    """Candidates of a job."""
    p, request = job.problem, job.operands.request
    queries = fp32_side(job) if job.fp32 else model.BACKWARD_TILES[p.head].dkv.queries
    job = job._replace(queries=queries)
    if 0 in (p.batch, p.heads, p.rows, p.keys, p.width):
        empty = tuple(b._replace(zeroed=True) for b in job.results)
        return [Candidate("empty", 0.0, "no scores", lambda: Plan((), empty))]
    work = BackwardKernels(job, request.target)
    recomputed = work.candidate("scores recomputed", _recomputed, work.dq, 0.0)
    by_tma = tma.candidates(job, request.target)
    if by_tma and tma_model.covers(p, request.target):
        return by_tma
    made = [recomputed, *_by_warpgroups(work), *by_tma]
    rounds = _rounds(job, request.target)
    if not rounds:
        return made
    size = 2 * p.dtype.itemsize
    moved = size * p.batch * p.heads * (p.rows * p.keys * p.share + 2 * p.rows * p.head)
    launches = (2 * len(rounds) - 1) * work.gpu.launch
    build = functools.partial(_stored, rounds=rounds)
    more = launches + moved / work.gpu.bandwidth
    return [*made, work.candidate("scores stored", build, work.stored, more)]


def _rounds(job: AttentionBackwardJob, gpu: Target) -> list[tuple[int, int]]:
    """The first head of keys and the number of heads of each round; none if a head is too large."""
    heads = job.key_heads
    most = model.STORED_BYTES // (job.problem.dtype.itemsize * job.stored_size)
    # A round of few heads leaves SMs without a block.
    if most < heads and most * cdiv(job.problem.keys, 64) < 2 * gpu.sms:
        return []
    each = cdiv(heads, cdiv(heads, most))
    return [(first, min(each, heads - first)) for first in range(0, heads, each)]


def results(request: Request, ragged: bool) -> tuple[Buffer, ...]:
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


class BackwardKernels:
    """The kernels of a backward call.

    dq      the kernel for the gradient of the queries
    dkv     the kernel for the gradients of keys and values
    stored  the kernel that multiplies stored gradients of scores by keys
    """

    def __init__(self, job: AttentionBackwardJob, gpu: Target) -> None:
        self.job, self.gpu = job, gpu
        p, tiles = job.problem, model.BACKWARD_TILES[job.problem.head]
        if job.fp32:
            side = BlockTile(queries=fp32_side(job), keys=fp32_side(job), warps=8)
            self.dq_tile = self.dkv_tile = self.stored_tile = side
        else:
            self.dq_tile, self.dkv_tile, self.stored_tile = tiles.dq, tiles.dkv, tiles.stored
        self.rate = model.FP32_REACH * gpu.fp32 if job.fp32 else 2 * gpu.tf32 * tiles.reach
        heads, own = p.batch * p.heads, p.rows * p.head
        sides = self.dq_tile.queries, self.dq_tile.keys
        self.dq = self._stream(3, sides, heads, p.rows, p.keys, heads * own)
        sides = self.stored_tile.queries, self.stored_tile.keys
        self.stored = self._stream(1, sides, heads, p.rows, p.keys, heads * own)
        sides = self.dkv_tile.keys, self.dkv_tile.queries
        sums = 2 * job.key_heads * p.keys * p.head
        self.dkv = self._stream(4, sides, job.key_heads, p.keys, p.rows * p.group, sums)

    def _stream(
        self, products: int, tile: tuple[int, int], heads: int, rows: int, past: int, sums: int
    ) -> StreamingKernel:
        """The kernel whose blocks have tile[0] of `rows` rows, and stream `past` rows."""
        p = self.job.problem
        work = 2 * products * tile[0] * past * p.head * p.share
        blocks = cdiv(rows, tile[0]) * heads
        return StreamingKernel(blocks, cdiv(past, tile[1]), work * self.gpu.sms / self.rate, sums)

    def parts(self, stream: StreamingKernel) -> int:
        """Parts that a kernel splits its streamed rows into."""
        return 1 if self.job.problem.starts[0] is not None else stream.parts(self.gpu)

    def candidate(
        self,
        name: str,
        build: Callable[[BackwardKernels], Plan],
        of_queries: StreamingKernel,
        more: float,
    ) -> Candidate:
        """A candidate with that kernel for the queries, which takes `more` seconds."""
        cost, why = 2 * self.gpu.launch + more + self.job.operands.cost, ["two kernels"]
        for what, stream in (("keys", of_queries), ("queries", self.dkv)):
            parts = self.parts(stream)
            cost += stream.time(parts, self.gpu)
            if parts > 1:
                why.append(f"{what} in {parts} parts")
        return Candidate(name, cost, ", ".join(why), functools.partial(build, self))


class Steps:
    """The launches and the scratch of a plan."""

    def __init__(self, work: BackwardKernels) -> None:
        self.work, self.job = work, work.job
        self.made: list[Step] = []
        self.scratch: list[Buffer] = []

    def buffer(self, made: Buffer) -> Pointer:
        """The pointer of new scratch."""
        self.scratch.append(made)
        return Pointer(self.job.delta.number + len(self.scratch))

    def split(self, stream: StreamingKernel, whole: bool) -> tuple[int, Argument]:
        """The number of parts of a kernel, and the address of its sums; `whole`: one round."""
        parts = self.work.parts(stream) if whole else 1
        return parts, self.buffer(scratch(stream, parts)) if parts > 1 else None

    def join(self, sums: Argument, parts: int, *numbers: int) -> None:
        """Add up the sums of the results of these numbers."""
        if not isinstance(sums, Pointer):
            return
        p, made = self.job.problem, []
        for n in numbers:
            result = self.job.results[n]
            heads, rows = result.shape[-3] if len(result.shape) > 2 else 1, result.shape[-2]
            sizes = (p.batch, heads, rows, result.shape[-1])
            made.append(Result(self.job.result(n), p.strides(result), sizes, p.dtype))
        self.made.append(join(sums, p.head, parts, *made))

    def plan(self) -> Plan:
        return self.job.plan(self.made, self.job.results, self.scratch)


def _recomputed(work: BackwardKernels) -> Plan:
    """Both kernels compute scores."""
    job, p, steps = work.job, work.job.problem, Steps(work)
    dout, q, k, v, out = (x.pointer for x in job.inputs)
    bm, bn, warps, _ = work.dq_tile
    words = (bm, p.mask, p.drops) if job.fp32 else (bm, bn, warps, p.mask, p.drops)
    shared = fp32_bytes(job) if job.fp32 else job.pitch * (2 * bm + 4 * bn)
    parts, sums = steps.split(work.dq, whole=True)
    heads, tiles = p.batch * p.heads, cdiv(p.rows, bm)
    structs = job.structs(heads_at_once(p, work.gpu, tiles, heads), parts=parts)
    tensors = (q, k, v, p.mask_pointer, out, dout, Pointer(LSE), job.dlse, job.delta)
    more = (*p.random, *job.expression.arguments)
    args = (*tensors, job.result(0), sums, *p.starts, *structs, *more)
    kernel = job.kernel("queries", *words)
    steps.made.append(Step(kernel, (tiles * heads * parts,), (32 * warps,), args, shared))
    steps.join(sums, parts, 0)
    _key_step(steps, (0, job.key_heads), None)
    return steps.plan()


def _by_warpgroups(work: BackwardKernels) -> list[Candidate]:
    """The candidate whose kernels are for warpgroups, if there is one."""
    job, gpu = work.job, work.gpu
    kernels = warpgroup.kernels(job, gpu)
    if not kernels:
        return []
    cost = 3 * gpu.launch + model.WARPGROUP_FIXED + job.operands.cost
    why = ["three kernels"]
    for kernel in kernels:
        stream = warpgroup.stream(job, kernel, gpu)
        parts = work.parts(stream)
        # Under a causal mask the longest block streams all tiles.
        longest = stream.seconds / (job.problem.share * parts)
        cost += max(stream.time(parts, gpu), longest)
        if parts > 1:
            why.append(f"{'queries' if kernel.of_keys else 'keys'} in {parts} parts")
    build = functools.partial(_plan_warpgroups, work, kernels)
    return [Candidate("scores recomputed, warpgroups", cost, ", ".join(why), build)]


def _plan_warpgroups(work: BackwardKernels, kernels: Sequence[WarpgroupKernel]) -> Plan:
    """Both kernels compute scores, by warpgroups."""
    job, p, steps = work.job, work.job.problem, Steps(work)
    dout, q, k, v, _ = (x.pointer for x in job.inputs)
    steps.made.append(job.delta_step())
    for kernel in kernels:
        stream = warpgroup.stream(job, kernel, work.gpu)
        parts, sums = steps.split(stream, whole=True)
        heads = job.key_heads if kernel.of_keys else p.batch * p.heads
        at_once = heads_at_once(p, work.gpu, stream.blocks // heads, heads)
        numbers = (1, 2) if kernel.of_keys else (0,)
        results = [job.result(n) for n in numbers]
        tensors = (q, k, v, p.mask_pointer, dout, Pointer(LSE), job.delta, results[0], results[-1])
        more = (*job.structs(at_once, parts=parts), *job.expression.arguments)
        args = (*tensors, sums, *p.starts, Counters(), *more)
        grid = (min(stream.blocks * parts, work.gpu.sms),)
        made, block = warpgroup.compiled(job, kernel), (warpgroup.THREADS,)
        steps.made.append(Step(made, grid, block, args, kernel.shared(p.head)))
        steps.join(sums, parts, *numbers)
    return steps.plan()


def _key_step(steps: Steps, heads: tuple[int, int], stored: Argument) -> None:
    """Add the kernel for keys and values of the heads of a round."""
    work, job, p = steps.work, steps.job, steps.job.problem
    dout, q, k, v, _ = (x.pointer for x in job.inputs)
    bm, bn, warps, _ = work.dkv_tile
    paired = not job.fp32 and model.BACKWARD_TILES[p.head].paired
    parts, sums = steps.split(work.dkv, whole=heads[1] == job.key_heads)
    tiles = cdiv(p.keys, bn)
    structs = job.structs(heads_at_once(p, work.gpu, tiles, heads[1]), heads, parts)
    store = str(stored is not None).lower()
    if job.fp32:
        stages = fp32_stages(job)
        kernel = job.kernel("keys", bm, stages, p.mask, store, p.drops)
        shared = fp32_bytes(job, stages)
    else:
        words = (bm, bn, warps, p.mask, str(paired).lower(), store, p.drops)
        kernel = job.kernel("keys", *words)
        shared = job.pitch * (2 * bn + 4 * bm) + 16 * bm + (4 * bn * bm if paired else 0)
    tensors = (q, k, v, p.mask_pointer, dout, Pointer(LSE), job.delta)
    results = (job.result(1), job.result(2))
    more = (*p.random, *job.expression.arguments)
    args = (*tensors, *results, stored, sums, *p.starts, *structs, *more)
    grid = (tiles * heads[1] * parts,)
    steps.made.append(Step(kernel, grid, (32 * warps,), args, shared))
    steps.join(sums, parts, 1, 2)


def _stored(work: BackwardKernels, rounds: Sequence[tuple[int, int]]) -> Plan:
    """The kernel of keys and values stores gradients of scores for that of the queries."""
    job, p, steps = work.job, work.job.problem, Steps(work)
    bm, bn, warps, stages = work.stored_tile
    kernel = job.kernel("sums", *((bm,) if job.fp32 else work.stored_tile))
    scores = 4 * bm * (bn + 4) if job.fp32 else 2 * bm * bn
    shared = stages * (job.pitch * bn + scores)
    stored = steps.buffer(Buffer((rounds[0][1] * job.stored_size,), p.dtype))
    steps.made.append(job.delta_step())
    for heads in rounds:
        _key_step(steps, heads, stored)
        parts, sums = steps.split(work.stored, whole=len(rounds) == 1)
        tiles, count = cdiv(p.rows, bm), heads[1] * p.group
        structs = job.structs(heads_at_once(p, work.gpu, tiles, count), heads, parts)
        args = (stored, job.inputs[2].pointer, job.result(0), sums, *p.starts, *structs)
        steps.made.append(Step(kernel, (tiles * count * parts,), (32 * warps,), args, shared))
        steps.join(sums, parts, 0)
    return steps.plan()
