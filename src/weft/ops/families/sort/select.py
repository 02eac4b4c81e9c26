"""Plans the k first elements of long rows: tiles leave k candidates each, which are sorted."""

from __future__ import annotations

from dataclasses import replace

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.families.sort import model, rows
from weft.ops.families.sort.job import Job, Rows
from weft.ops.families.sort.model import H200
from weft.ops.families.sort.rows import KEYS, Tile

TILE = Tile(16, 16)
LEAST = 4
"""The factor by which a round of selection must reduce the elements."""


def candidates(job: Job) -> list[Candidate]:
    """The candidates that sort no more than the elements of each row that may be wanted."""
    k = job.rows.first + job.rows.count
    if job.rows.n <= rows.BLOCKS[0].size or k * LEAST > TILE.size:
        return []
    rounds = _rounds(job, k)
    tile = rows.block_tile(_of_pairs(job, rounds[-1]))
    assert tile is not None
    gpu, size, time = job.gpu, int(job.dtype.itemsize), 0.0
    held = model.resident(gpu, 32 * TILE.warps, 8192)
    for i, n in enumerate([job.rows.n, *rounds[:-1]]):
        each = size + 4 if i else model.element_bytes(job.rows.x_step, 0, size, False)
        busy = model.busy(gpu, job.rows.rows * cdiv(n, TILE.size), TILE.warps, held,
                          TILE.items * (H200.selected + 6 * size))  # fmt: skip
        time += gpu.launch + max(model.moved(gpu, job.rows.rows * n * each), busy) + H200.latency
    time += gpu.launch + rows.block_time(_of_pairs(job, rounds[-1]), tile)

    def build() -> Plan:
        return _plan(job, k, rounds, tile)

    why = f"{' -> '.join(map(str, (job.rows.n, *rounds)))} elements in a row"
    name = f"{len(rounds)} rounds of selection, block of {tile.warps} warps x {tile.items}"
    return [Candidate(name, time, why, build)]


def _of_pairs(job: Job, n: int) -> Job:
    """The job whose rows are n pairs of a key and an index."""
    return replace(job, rows=replace(job.rows, n=n))


def _rounds(job: Job, k: int) -> list[int]:
    """The elements of a row that each round leaves, until a block can sort them."""
    left: list[int] = []
    n = job.rows.n
    while not left or rows.block_tile(_of_pairs(job, n)) is None:
        whole, rest = divmod(n, TILE.size)
        n = whole * k + min(k, rest)
        left.append(n)
    return left


def _plan(job: Job, k: int, rounds: list[int], tile: Tile) -> Plan:
    size, ctype = int(job.dtype.itemsize), source.ctype(job.dtype)
    kernel = source.kernel(
        "sort/select.cu", f"select<{ctype}, {TILE.warps}, {TILE.items}>", **Rows.define()
    )
    steps: list[Step] = []
    scratch: list[Buffer] = []
    given: tuple[Argument, Argument] = (None, None)
    n = job.rows.n
    for left in rounds:
        found = (Pointer(job.free + len(scratch)), Pointer(job.free + len(scratch) + 1))
        scratch += (
            Buffer((job.rows.rows * left,), KEYS[size]),
            Buffer((job.rows.rows * left,), torch.int32),
        )
        tiles = cdiv(n, TILE.size)
        packed = _of_pairs(job, n).rows.pack()
        args = (job.x, *given, *found, packed, tiles, left, k)
        steps.append(Step(kernel, (job.rows.rows * tiles,), (32 * TILE.warps,), args))
        given, n = found, left
    steps.append(rows.block_step(_of_pairs(job, n), tile, *given))
    return job.plan(steps, scratch)
