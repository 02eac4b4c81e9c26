"""Plans attention: tiles of queries on tensor cores, keys in parts for few queries, or floats."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import COUNTERS, Argument, Buffer, Counters, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.attention import groups
from weft.ops.families.attention.job import Job, together
from weft.ops.families.attention.problem import HEADS, Operands, Problem, problem_of

SM_BANDWIDTH = 60e9
"""Bytes that one SM reads per second when others do little."""
LATENCY = 0.5e-6
"""Seconds that a tile of keys takes beside its bytes where warps share queries (H200)."""
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


class Tile(NamedTuple):
    """Queries and keys of a block, its warps, stages of keys and values.

    resident  blocks that an SM holds
    reach     the share of the tensor cores' rate in a full tile
    causal    the same under a causal mask where it differs
    across    warps that have the same queries, and share the keys of a tile
    """

    queries: int
    keys: int
    warps: int
    stages: int
    resident: int
    reach: float
    causal: float = 0.0
    across: int = 1

    @property
    def name(self) -> str:
        return f"{self.queries} x {self.keys}" + (", warps share queries" * (self.across > 1))

    def shared(self, head: int, parts: int) -> int:
        """Bytes of shared memory; rows are padded by 16 bytes.

        In the end, it holds the results of warps that share queries, and the weights of parts.
        """
        tiles = 2 * (head + 8) * (self.queries + 2 * self.stages * self.keys)
        warps = 4 * self.queries * self.across * (head + 8 + 2) if self.across > 1 else 0
        return max(tiles, warps, 4 * self.queries * parts)


TILES = {
    16: (Tile(64, 64, 4, 2, 4, 0.09), Tile(128, 64, 4, 2, 3, 0.085)),
    32: (Tile(64, 64, 4, 2, 4, 0.12), Tile(128, 64, 4, 2, 3, 0.16)),
    48: (Tile(64, 64, 4, 2, 3, 0.18), Tile(128, 64, 8, 2, 2, 0.21)),
    64: (Tile(64, 64, 4, 2, 3, 0.2), Tile(128, 64, 4, 2, 2, 0.25)),
    80: (Tile(64, 64, 4, 2, 3, 0.21), Tile(128, 64, 4, 2, 2, 0.28)),
    96: (
        Tile(64, 64, 4, 2, 3, 0.22),
        Tile(128, 64, 4, 2, 2, 0.325, 0.3),
        Tile(128, 32, 4, 2, 2, 0.3, 0.32),
    ),
    128: (Tile(64, 64, 4, 2, 2, 0.25), Tile(128, 32, 4, 2, 2, 0.35)),
    192: (Tile(64, 64, 4, 1, 2, 0.25),),
    256: (Tile(64, 64, 4, 1, 2, 0.25),),
}
"""Tiles by head size."""
RESULT = 0.5e-9
"""Seconds of the last block of a tile for each result of more than FEW rows (H200)."""
FEW = 16
"""Queries of the tiles whose warps share them."""
SHARED = {
    head: Tile(FEW, 64, 4, 2 if head <= 128 else 1, resident, 0.096, across=4)
    for head, resident in zip(HEADS, (4, 4, 4, 4, 4, 4, 3, 2, 2), strict=True)
}
"""Tiles whose warps share their queries, by head size."""
PARTIAL = 1.8e12
"""Bytes of partial results per second (H200)."""


class FloatTile(NamedTuple):
    """Queries and keys of a block for floats, and the share of the GPU's rate in a full tile."""

    name: str
    queries: int
    keys: int
    reach: float

    def shared(self, head: int) -> int:
        """Bytes of shared memory; rows are padded by 16 bytes."""
        rows = (head + 4) * (self.queries + 2 * self.keys)
        return 4 * (rows + self.queries * (self.keys + 4))


FLOAT_TILES = (FloatTile("floats", 64, 32, 0.4), FloatTile("floats, few queries", 16, 64, 0.2))
TURN = 2e-6
"""Seconds of a tile of floats for memory and barriers (H200)."""


def candidates(
    request: Request, ragged: bool, lse: bool, state: int | None = None
) -> list[Candidate]:
    """Candidates of a forward call, which returns the logarithms of the sums if `lse`.

    `state` is the number of the state of a call with dropout.
    """
    operands = Operands(request, 2 if lse else 1, ragged)
    starts = (3, 4) if ragged else None
    p = problem_of(operands, (0, 1, 2), None if ragged else 3, starts, state)
    q, k, v = (operands.rows(n, p) for n in range(3))
    inputs = len(request.inputs)
    job = Job(p, q, k, v, operands, Pointer(inputs), Pointer(inputs + 1) if lse else None)
    if 0 in (p.batch, p.heads, p.rows, p.width):
        return [Candidate("empty", 0.0, "no elements", lambda: job.plan(()))]
    made = (_floats if p.dtype == torch.float32 else _tiles)(job, request.target)
    return [Candidate(c.name, c.cost + operands.cost, c.why, c.build) for c in made]


def _tiles(job: Job, gpu: Target) -> list[Candidate]:
    p, made = job.problem, []
    pack = _pack(p)
    for tile in (*TILES[p.head], SHARED[p.head]):
        tiles = cdiv(p.rows * pack, tile.queries) * (p.heads // pack) * p.batch
        for parts in SPLITS:
            least = parts if tile.across > 1 else 2 * parts
            if parts > 1 and (
                tiles > COUNTERS or tiles >= 2 * gpu.sms or cdiv(p.keys, tile.keys) < least
            ):
                continue
            name = tile.name + (f", keys in {parts}" if parts > 1 else "")
            why = f"{tiles * parts} blocks for {gpu.sms} SMs"
            build = functools.partial(_plan, job, tile, pack, parts, gpu)
            cost = _time(p, tile, tiles, parts, gpu)
            made.append(Candidate(name, cost, why, build))
    made += groups.candidates(job, gpu)
    return sorted(made, key=lambda c: c.cost)[:8]


def _pack(p: Problem) -> int:
    """How many heads that share keys are rows of the same tiles."""
    # Dropout counts queries by 16, which those of several heads are not.
    return p.group if p.rows < 64 and p.group > 1 and not p.drop else 1


def _time(p: Problem, tile: Tile, tiles: int, parts: int, gpu: Target) -> float:
    """The modelled time: that of the SM with the most blocks, at least the memory time."""
    blocks = tiles * parts
    most = cdiv(blocks, gpu.sms)
    at_once = min(most, tile.resident)
    keys = cdiv(p.keys, parts) * p.share
    if p.causal:  # tiles on the diagonal are computed whole
        keys = min(cdiv(p.keys, parts), keys + (tile.queries + tile.keys) / 2 / parts)
    reach = (p.causal and tile.causal) or tile.reach
    moved = 4 * p.batch * p.heads * (p.rows + p.seen_keys / p.group) * p.head / gpu.bandwidth
    if tile.across > 1:
        count = cdiv(math.ceil(keys), tile.keys)
        alone = count * (LATENCY + 4 * tile.keys * p.head / SM_BANDWIDTH)
        work = 4 * tile.queries * count * tile.keys * p.head / (2 * gpu.tf32 / gpu.sms * reach)
        busy = cdiv(most, at_once) * max(alone, at_once * work)
    else:
        work = 4 * tile.queries * keys * p.head / (2 * gpu.tf32 / gpu.sms * reach)
        work *= max(1.0, tile.resident / at_once / 2)  # too few warps hide no latency
        read = 2 * 2 * keys * p.head / SM_BANDWIDTH / at_once
        busy = most * max(work, read)
    return gpu.launch + 3e-6 + max(busy, moved) + _joining(p, tile.queries, blocks, parts)


def _joining(p: Problem, queries: int, blocks: int, parts: int) -> float:
    """Seconds for keys in parts: blocks write partial results, the last of a tile combines them."""
    if parts == 1:
        return 0.0
    rows = min(p.rows, queries)
    partial = 8 * blocks * rows * p.head / PARTIAL
    if queries <= FEW:
        return 4e-6 + cdiv(parts, 8) * 0.5e-6 + partial / 2
    return 4e-6 + cdiv(rows, 4 * 8) * (1 + parts / 8) * 1e-6 + partial + rows * p.head * RESULT


def _plan(job: Job, tile: Tile, pack: int, parts: int, gpu: Target) -> Plan:
    p = job.problem
    flags = (*tile[:4], p.mask, str(parts > 1).lower(), p.drops, tile.across)
    words = ", ".join(map(str, (source.ctype(p.dtype), p.head, *flags)))
    kernel = source.kernel("attention/forward.cu", f"attend<{words}>")
    tiles = cdiv(p.rows * pack, tile.queries) * (p.heads // pack) * p.batch
    scratch, partial = _partial(job, tiles * parts * tile.queries, parts)
    heads = p.batch * p.heads // pack
    at_once = together(p, gpu, tiles // heads, heads)
    problem = p.packed(job.strides, pack, parts, at_once)
    args = (*job.pointers, *partial, problem, *p.random)
    step = Step(kernel, (tiles * parts,), (tile.warps * 32,), args, tile.shared(p.head, parts))
    return job.plan((step,), scratch)


def _partial(job: Job, rows: int, parts: int) -> tuple[tuple[Buffer, ...], tuple[Argument, ...]]:
    """Scratch for partial results of so many rows, and the arguments for them."""
    if parts == 1:
        return (), (None, None)
    made = Buffer((rows * (job.problem.head + 1),), torch.float32)
    return (made,), (Pointer(job.operands.first + len(job.operands.scratch)), Counters())


def _floats(job: Job, gpu: Target) -> list[Candidate]:
    p, made = job.problem, []
    pack = _pack(p)
    for tile in FLOAT_TILES:
        tiles = cdiv(p.rows * pack, tile.queries) * (p.heads // pack) * p.batch
        for parts in SPLITS:
            if parts > 1 and (
                tiles > COUNTERS or tiles >= gpu.sms or cdiv(p.keys, tile.keys) < 2 * parts
            ):
                continue
            keys = cdiv(p.keys, parts) * p.share
            # A block that has an SM to itself waits for memory and barriers most of the time.
            work = 4 * tile.queries * keys * p.head / (gpu.fp32 / gpu.sms * tile.reach)
            work += keys / tile.keys * TURN
            cost = gpu.launch + 3e-6 + cdiv(tiles * parts, gpu.sms) * work
            cost += _joining(p, tile.queries, tiles * parts, parts)
            why = f"{tiles * parts} blocks for {gpu.sms} SMs"
            build = functools.partial(_plan_floats, job, tile, pack, tiles, parts, gpu)
            name = tile.name + (f", keys in {parts}" if parts > 1 else "")
            made.append(Candidate(name, cost, why, build))
    return sorted(made, key=lambda c: c.cost)[:8]


def _plan_floats(job: Job, tile: FloatTile, pack: int, tiles: int, parts: int, gpu: Target) -> Plan:
    p = job.problem
    split = str(parts > 1).lower()
    words = f"{p.head}, {p.mask}, {p.drops}, {split}, {tile.queries}, {tile.keys}"
    kernel = source.kernel("attention/single.cu", f"attend<{words}>")
    heads = p.batch * p.heads // pack
    scratch, partial = _partial(job, tiles * parts * tile.queries, parts)
    at_once = together(p, gpu, tiles // heads, heads)
    problem = p.packed(job.strides, pack, parts, at_once, job.operands.single)
    args = (*job.pointers, *partial, problem, *p.random)
    return job.plan((Step(kernel, (tiles * parts,), (256,), args, tile.shared(p.head)),), scratch)
