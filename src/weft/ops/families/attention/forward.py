"""Plan attention: tiles of queries on tensor cores, split keys for few queries, or float32."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from weft.errors import ArgumentError
from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import COUNTERS, Argument, Buffer, Counters, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.attention import direct_model, model, ring_model, tma, warpgroup
from weft.ops.families.attention.boxes import SLAB, operand_map
from weft.ops.families.attention.direct_model import DirectTile
from weft.ops.families.attention.forward_job import AttentionJob
from weft.ops.families.attention.model import ForwardTile, Fp32Tile
from weft.ops.families.attention.problem import EXPRESSION, AttentionOperands, Problem, problem_of
from weft.ops.families.attention.ring_model import RingTile

FewQueriesTile = ForwardTile | DirectTile | RingTile
LEAST_QUERIES = 16
"""Queries of the smallest tile."""
LISTED = 8
"""Candidates of a call."""
MOST_HEADS = COUNTERS
"""Heads of all sequences of an invariant call, whose keys may be split however many they are."""
ORDER = "one sequence"
"""The order of sums of the candidate that one sequence would have alone."""


def candidates(
    request: Request, ragged: bool, lse: bool, state: int | None = None
) -> list[Candidate]:
    """Candidates of a forward call, which returns the logarithms of the sums if `lse`.

    `state` is the number of the state of a call with dropout.
    """
    operands = AttentionOperands(request, 2 if lse else 1, ragged)
    starts = (3, 4) if ragged else None
    p = problem_of(operands, (0, 1, 2), None if ragged else 3, starts, state)
    q, k, v = (operands.rows(n, p) for n in range(3))
    inputs = len(request.inputs)
    job = AttentionJob(p, q, k, v, operands, Pointer(inputs), Pointer(inputs + 1) if lse else None)
    if 0 in (p.batch, p.heads, p.rows, p.width):
        return [Candidate("empty", 0.0, "no elements", lambda: job.plan(()))]
    return ranked(job, request.target)


def ranked(job: AttentionJob, gpu: Target) -> list[Candidate]:
    """The candidates of a job, those with the least modelled time first."""
    p = job.problem
    if job.is_invariant and (tiles := p.batch * p.heads * cdiv(p.rows, LEAST_QUERIES)) > MOST_HEADS:
        raise ArgumentError(
            "weft.ops.attention: a call of one order for every batch has too many heads",
            got=f"{p.batch} sequences of {p.heads} heads: {tiles}",
            allowed=f"{MOST_HEADS} in all",
            next="make several calls",
        )
    made = (_fp32 if job.problem.dtype == torch.float32 else _half)(job, gpu)
    least = sorted(made, key=lambda c: c.cost)[: 1 if job.is_invariant else LISTED]
    order = ORDER if job.is_invariant else ""
    return [Candidate(c.name, c.cost + job.operands.cost, c.why, c.build, order) for c in least]


class _Grid(NamedTuple):
    """Tiles of a launch, the parts that their keys are split into, and heads packed in a tile."""

    tiles: int
    parts: int
    pack: int


def _half(job: AttentionJob, gpu: Target) -> list[Candidate]:
    """Candidates for f16 and bf16."""
    p, made = job.modelled, []
    pack = _packed_heads(p)
    for tile in (job.staged(tile) for tile in model.FORWARD_TILES[p.head]):
        tiles = cdiv(p.rows * pack, tile.queries) * (p.heads // pack) * p.batch
        for parts in _parts(tiles, cdiv(p.keys, tile.keys), 2, 2 * gpu.sms):
            grid = _Grid(tiles * job.repeated, parts, pack)
            build = functools.partial(_plan_half, job, tile, grid, gpu)
            made.append(_candidate(tile.name, tile.time(p, tiles, parts, gpu), grid, gpu, build))
    made += _few_queries(job, pack, gpu) + _direct(job, pack, gpu)
    if job.is_invariant:
        return made
    made += _rings(job, pack, gpu)
    if job.pages is not None:
        return made
    return made + warpgroup.candidates(job, gpu) + tma.candidates(job, gpu)


def _few_queries(job: AttentionJob, pack: int, gpu: Target) -> list[Candidate]:
    """Candidates whose warps share their queries; parts of the keys are blocks, or of a cluster."""
    p, made, base = job.modelled, [], model.SHARED_TILES[job.problem.head]
    tiles = cdiv(p.rows * pack, base.queries) * (p.heads // pack) * p.batch
    key_tiles = cdiv(p.keys, base.keys)
    for parts in _parts(tiles, key_tiles, 1, 2 * gpu.sms):
        tile = job.staged(model.shared_tile(p.head, tiles * parts, gpu))
        grid = _Grid(tiles * job.repeated, parts, pack)
        made += _shared_queries(job, tile, grid, gpu, _plan_half)
    return made


def _direct(job: AttentionJob, pack: int, gpu: Target) -> list[Candidate]:
    """Candidates whose warps take keys and values straight to registers."""
    p = job.problem
    whole = p.head in direct_model.HEADS and p.depth == p.width == p.head
    if not whole or p.drop or p.mask == EXPRESSION or job.is_quantised:
        return []
    if job.pages is not None and not job.pages.has_steps_of(DirectTile.keys(p.head)):
        return []
    return _of_tiles(job, direct_model.TILES, pack, gpu, _plan_direct)


def _rings(job: AttentionJob, pack: int, gpu: Target) -> list[Candidate]:
    """Candidates whose warps have rings of keys and values of their own."""
    p = job.problem
    dense = job.pages is None and p.starts[0] is None
    if gpu.capability != tma.CAPABILITY or p.head not in ring_model.HEADS or not dense:
        return []
    if p.rows * pack > ring_model.MOST_ROWS:
        return []
    if p.drop or p.mask == EXPRESSION or model.traffic(p, gpu) * gpu.bandwidth < ring_model.LEAST:
        return []
    return _of_tiles(job, ring_model.TILES, pack, gpu, _plan_rings)


def _of_tiles(
    job: AttentionJob,
    every: Sequence[DirectTile | RingTile],
    pack: int,
    gpu: Target,
    plan: Callable[..., Plan],
) -> list[Candidate]:
    """Candidates of tiles whose warps take steps of keys by turns."""
    p, made = job.modelled, []
    for tile in every:
        tiles = cdiv(p.rows * pack, tile.queries) * (p.heads // pack) * p.batch
        steps = cdiv(p.keys, tile.keys(p.head) * tile.warps)
        for parts in _parts(tiles, steps, 1, 2 * tile.resident * gpu.sms):
            grid = _Grid(tiles * job.repeated, parts, pack)
            made += _shared_queries(job, tile, grid, gpu, plan)
    return made


def _shared_queries(
    job: AttentionJob, tile: FewQueriesTile, grid: _Grid, gpu: Target, plan: Callable[..., Plan]
) -> list[Candidate]:
    """A tile with parts of the keys in blocks, and in the blocks of a cluster."""
    p, parts, tiles = job.modelled, grid.parts, grid.tiles // job.repeated
    build = functools.partial(plan, job, tile, grid, gpu)
    made = [_candidate(tile.name, tile.time(p, tiles, parts, gpu), grid, gpu, build)]
    few = grid.tiles <= tile.most_clusters and gpu.capability >= (9, 0) and not job.is_invariant
    if parts in model.CLUSTER_PARTS and few:
        tile = tile._replace(clustered=True)
        build = functools.partial(plan, job, tile, grid, gpu)
        why = f"{tiles * parts} blocks for {gpu.sms} SMs"
        name = f"{tile.name}, cluster of {parts}"
        made.append(Candidate(name, tile.time(p, tiles, parts, gpu), why, build))
    return made


def _fp32(job: AttentionJob, gpu: Target) -> list[Candidate]:
    """Candidates for float32, without tensor cores."""
    p, made = job.modelled, []
    pack = _packed_heads(p)
    for tile in model.FP32_TILES:
        tiles = cdiv(p.rows * pack, tile.queries) * (p.heads // pack) * p.batch
        for parts in _parts(tiles, cdiv(p.keys, tile.keys), 2, gpu.sms):
            grid = _Grid(tiles * job.repeated, parts, pack)
            build = functools.partial(_plan_fp32, job, tile, grid, gpu)
            made.append(_candidate(tile.name, tile.time(p, tiles, parts, gpu), grid, gpu, build))
    return made


def _packed_heads(p: Problem) -> int:
    """Heads that share keys and are rows of the same tiles."""
    # Dropout counts queries by 16, which those of several heads are not.
    return p.group if p.rows < 64 and p.group > 1 and not p.drop else 1


def _parts(tiles: int, key_tiles: int, least: int, limit: int) -> list[int]:
    """Numbers of parts of the keys: of at least so many tiles, for fewer than `limit` blocks."""
    if tiles > COUNTERS or tiles >= limit:
        return [n for n in model.SPLIT_KV if n == 1]
    return [n for n in model.SPLIT_KV if n == 1 or key_tiles >= least * n]


def _candidate(
    name: str, cost: float, grid: _Grid, gpu: Target, build: functools.partial[Plan]
) -> Candidate:
    split = f", keys in {grid.parts}" if grid.parts > 1 else ""
    why = f"{grid.tiles * grid.parts} blocks for {gpu.sms} SMs"
    return Candidate(name + split, cost, why, build)


def _plan_half(job: AttentionJob, tile: ForwardTile, grid: _Grid, gpu: Target) -> Plan:
    p = job.problem
    split = _split(tile, grid)
    shape = (p.head, tile.queries, tile.keys, tile.warps, tile.stages, p.mask, split, p.drops)
    words = ", ".join(map(str, (source.ctype(p.dtype), *shape, tile.key_warps)))
    file = "attention/forward.cu" if job.pages is None else "attention/paged.cu"
    entry = "attend_int8" if job.is_quantised else "attend"
    kernel = source.kernel(file, f"{entry}<{words}>", **job.expression.macros)
    shared = tile.shared(p.head, grid.parts) + (tile.scale_bytes if job.is_quantised else 0)
    last = p.random if job.pages is None else job.pages.arguments
    return _plan(
        job, kernel, tile.queries, tile.warps * 32, shared, grid, gpu, last, tile.clustered
    )


def _split(tile: FewQueriesTile, grid: _Grid) -> str:
    """The division of a tile's keys, as split.cuh names it."""
    return "CLUSTER" if tile.clustered else "BLOCKS" if grid.parts > 1 else "WHOLE"


def _plan_direct(job: AttentionJob, tile: DirectTile, grid: _Grid, gpu: Target) -> Plan:
    p = job.problem
    words = (source.ctype(p.dtype), p.head, tile.warps, p.mask, _split(tile, grid))
    entry = "direct" if job.pages is None else "direct_paged"
    kernel = source.kernel("attention/direct.cu", source.template(entry, *words))
    shared = tile.shared(p.head, grid.parts)
    last = () if job.pages is None else job.pages.arguments
    return _plan(
        job, kernel, tile.queries, tile.warps * 32, shared, grid, gpu, last, tile.clustered
    )


def _plan_rings(job: AttentionJob, tile: RingTile, grid: _Grid, gpu: Target) -> Plan:
    p, keys = job.problem, tile.keys(job.problem.head)
    split = _split(tile, grid)
    words = (source.ctype(p.dtype), p.head, tile.warps, tile.stages, keys, p.mask, split)
    kernel = source.kernel("attention/rings.cu", source.template("rings", *words))
    shared, box = tile.shared(p.head, grid.parts), (SLAB, keys, 1, 1)
    heads = p.heads // p.group
    k, v = (
        operand_map(x, p, (width, p.keys, heads), box)
        for x, width in ((job.k, p.depth), (job.v, p.width))
    )
    given = (job.q.pointer, k, v, p.mask_pointer, job.out, job.lse)
    return _plan(
        job, kernel, tile.queries, tile.warps * 32, shared, grid, gpu, (), tile.clustered, given
    )


def _plan_fp32(job: AttentionJob, tile: Fp32Tile, grid: _Grid, gpu: Target) -> Plan:
    p = job.problem
    split = str(grid.parts > 1).lower()
    words = f"{p.head}, {p.mask}, {p.drops}, {split}, {tile.queries}, {tile.keys}"
    kernel = source.kernel("attention/fp32.cu", f"attend<{words}>", **job.expression.macros)
    return _plan(job, kernel, tile.queries, 256, tile.shared(p.head), grid, gpu, p.random)


def _plan(
    job: AttentionJob, kernel: Kernel, queries: int, threads: int, shared: int, grid: _Grid,
    gpu: Target, last: tuple[Argument, ...], clustered: bool = False,
    given: tuple[Argument, ...] | None = None,
) -> Plan:  # fmt: skip
    """`given` are the tensors that the kernel takes first, if they are not those of the job."""
    p, (tiles, parts, pack) = job.problem, grid
    scratch, partial = _partial(job, tiles * parts * queries, 1 if clustered else parts)
    heads = p.batch * p.heads // pack
    at_once = model.heads_at_once(p, gpu, tiles // heads, heads)
    problem = p.packed(job.strides, pack, parts, at_once, job.operands.elementwise)
    args = (*(given or job.pointers), *partial, problem, *last, *job.expression.arguments)
    early = gpu.capability >= (9, 0)
    cluster = (parts,) if clustered else None
    step = Step(kernel, (tiles * parts,), (threads,), args, shared, cluster=cluster, early=early)
    return job.plan((step,), scratch)


def _partial(
    job: AttentionJob, rows: int, parts: int
) -> tuple[tuple[Buffer, ...], tuple[Argument, ...]]:
    """Scratch for partial results of so many rows, and the arguments for them."""
    if parts == 1:
        return (), (None, None)
    made = Buffer((rows * (job.problem.head + 1),), torch.float32)
    return (made,), (Pointer(job.operands.first + len(job.operands.scratch)), Counters())
