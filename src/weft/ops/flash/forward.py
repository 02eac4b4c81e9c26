"""Plans attention: tiles of queries on tensor cores, keys in parts for few queries, or floats."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate, Request
from weft.ops.flash.problem import Operand, Operands, Problem, problem_of
from weft.ops.plan import COUNTERS, Argument, Buffer, Counters, Plan, Pointer, Step
from weft.ops.target import Target

SM_BANDWIDTH = 60e9
"""Bytes that one SM reads per second when others do little."""
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


class Tile(NamedTuple):
    """Queries and keys of a block, its warps, stages of keys and values.

    resident  blocks that an SM holds
    reach     the share of the tensor cores' rate in a full tile
    """

    queries: int
    keys: int
    warps: int
    stages: int
    resident: int
    reach: float

    def shared(self, head: int) -> int:
        """Bytes of shared memory; rows are padded by 16 bytes."""
        return 2 * (head + 8) * (self.queries + 2 * self.stages * self.keys)


TILES = {
    32: (Tile(64, 64, 4, 2, 4, 0.12), Tile(128, 64, 4, 2, 3, 0.16)),
    64: (Tile(64, 64, 4, 2, 3, 0.2), Tile(128, 64, 4, 2, 2, 0.25)),
    96: (Tile(64, 64, 4, 2, 3, 0.22), Tile(128, 64, 4, 2, 2, 0.3)),
    128: (Tile(64, 64, 4, 2, 2, 0.25), Tile(128, 32, 4, 2, 2, 0.35)),
    192: (Tile(64, 64, 4, 1, 2, 0.25),),
    256: (Tile(64, 64, 4, 1, 2, 0.25),),
}
"""Tiles by head size."""
PARTIAL = 1.8e12
"""Bytes of partial results per second (H200)."""
RESIDENT = 2
"""Blocks that an SM holds of most kernels."""
QUERIES, KEYS = 64, 32
"""The tile of the kernel for floats."""


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


def candidates(
    request: Request, ragged: bool, lse: bool, state: int | None = None
) -> list[Candidate]:
    """Candidates of a forward call, which returns the logarithms of the sums if `lse`.

    `state` is the number of the state of a call with dropout.
    """
    operands = Operands(request, 2 if lse else 1, ragged)
    starts = (3, 4) if ragged else None
    p = problem_of(operands, (0, 1, 2), None if ragged else 3, starts, state)
    q, k, v = (operands.rows(n, p.lead) for n in range(3))
    inputs = len(request.inputs)
    job = Job(p, q, k, v, operands, Pointer(inputs), Pointer(inputs + 1) if lse else None)
    if 0 in (p.batch, p.heads, p.rows, p.width):
        return [Candidate("empty", 0.0, "no elements", lambda: job.plan(()))]
    made = [_floats(job, request.target)] if p.dtype == torch.float32 else _tiles(job, request)
    return [Candidate(c.name, c.cost + operands.cost, c.why, c.build) for c in made]


def _tiles(job: Job, request: Request) -> list[Candidate]:
    p, gpu = job.problem, request.target
    made = []
    for tile in TILES[p.head]:
        # Dropout counts queries by 16, which those of several heads are not.
        pack = p.group if p.rows < 64 and p.group > 1 and not p.drop else 1
        tiles = cdiv(p.rows * pack, tile.queries) * (p.heads // pack) * p.batch
        for parts in SPLITS:
            if parts > 1 and (
                tiles > COUNTERS or tiles >= 2 * gpu.sms or cdiv(p.keys, tile.keys) < 2 * parts
            ):
                continue
            name = f"{tile.queries} x {tile.keys}" + (f", keys in {parts}" if parts > 1 else "")
            why = f"{tiles * parts} blocks for {gpu.sms} SMs"
            build = functools.partial(_plan, job, tile, pack, parts, gpu)
            cost = _time(p, tile, tiles, parts, gpu)
            made.append(Candidate(name, cost, why, build))
    return sorted(made, key=lambda c: c.cost)[:8]


def _time(p: Problem, tile: Tile, tiles: int, parts: int, gpu: Target) -> float:
    """The modelled time: that of the SM with the most blocks, at least the memory time."""
    blocks = tiles * parts
    most = cdiv(blocks, gpu.sms)
    at_once = min(most, tile.resident)
    keys = cdiv(p.keys, parts) * p.share
    work = 4 * tile.queries * keys * p.head / (2 * gpu.tf32 / gpu.sms * tile.reach)
    work *= max(1.0, tile.resident / at_once / 2)  # too few warps hide no latency
    read = 2 * 2 * keys * p.head / SM_BANDWIDTH / at_once
    moved = 4 * p.batch * p.heads * (p.rows + p.keys / p.group) * p.head / gpu.bandwidth
    time = gpu.launch + 3e-6 + max(most * max(work, read), moved)
    if parts == 1:
        return time
    # Partial results are written and read in float; the last block of a tile combines its rows.
    partial = 8 * blocks * min(p.rows, tile.queries) * p.head / PARTIAL
    return time + 4e-6 + cdiv(min(p.rows, tile.queries), 4 * 8) * (1 + parts / 8) * 1e-6 + partial


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


def _plan(job: Job, tile: Tile, pack: int, parts: int, gpu: Target) -> Plan:
    p = job.problem
    wide = job.q.wide and job.k.wide and job.v.wide
    flags = (*tile[:4], p.mask, str(wide).lower(), str(parts > 1).lower(), p.drops)
    words = ", ".join(map(str, (source.ctype(p.dtype), p.head, *flags)))
    kernel = source.kernel("attention/forward.cu", f"attend<{words}>")
    tiles = cdiv(p.rows * pack, tile.queries) * (p.heads // pack) * p.batch
    scratch: tuple[Buffer, ...] = ()
    partial: tuple[Argument, ...] = (None, None)
    if parts > 1:
        scratch = (Buffer((tiles * parts * tile.queries * (p.head + 1),), torch.float32),)
        partial = (Pointer(job.operands.first + len(job.operands.scratch)), Counters())
    heads = p.batch * p.heads // pack
    at_once = together(p, gpu, tiles // heads, heads)
    problem = p.packed(job.strides, pack, parts, at_once)
    args = (*job.pointers, *partial, problem, *p.random)
    step = Step(kernel, (tiles * parts,), (tile.warps * 32,), args, tile.shared(p.head))
    return job.plan((step,), scratch)


def _floats(job: Job, gpu: Target) -> Candidate:
    p = job.problem
    tiles = cdiv(p.rows, QUERIES) * p.heads * p.batch
    work = 4 * QUERIES * p.keys * p.share * p.head / (gpu.fp32 / gpu.sms * 0.4)
    cost = gpu.launch + 3e-6 + cdiv(tiles, gpu.sms) * work
    why = f"{tiles} blocks for {gpu.sms} SMs"
    return Candidate("floats", cost, why, functools.partial(_plan_floats, job, tiles, gpu))


def _plan_floats(job: Job, tiles: int, gpu: Target) -> Plan:
    p = job.problem
    kernel = source.kernel("attention/single.cu", f"attend<{p.head}, {p.mask}, {p.drops}>")
    heads = p.batch * p.heads
    problem = p.packed(job.strides, together=together(p, gpu, tiles // heads, heads))
    shared = 4 * ((p.head + 4) * (QUERIES + 2 * KEYS) + QUERIES * (KEYS + 4))
    step = Step(kernel, (tiles,), (256,), (*job.pointers, problem, *p.random), shared)
    return job.plan((step,))
