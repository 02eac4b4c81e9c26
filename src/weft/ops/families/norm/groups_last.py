"""Plans group norm of tensors whose channels are last in memory, without a copy of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Layout, Plan, Step
from weft.ops.families.norm.channels import flat_order, permuted
from weft.ops.families.norm.forward import epsilon
from weft.ops.families.norm.rows import BLOCK, Job, job

SECTOR, LINE = 32, 64
"""Bytes of neighbouring channels that a block reads at least, and that are enough."""
SMALL, AMPLE, MOST = 10 << 10, 40 << 10, 100 << 10
"""Bytes of a block: those worth one, those that leave enough blocks on an SM, and the most."""
WAITING = 0.3
"""What AMPLE more bytes of a block cost: fewer blocks load while others compute."""
STORED = 8
"""Bytes that a thread writes at once: elements of larger vectors meet in banks of shared memory."""


class Tile(NamedTuple):
    """The groups of a block, elements from a channel to the next in shared memory, and bytes."""

    groups: int
    pitch: int
    memory: int


def candidates(request: Request, outputs: Sequence[Buffer]) -> list[Candidate]:
    """The candidate for a request whose input has its channels last, and groups that fit."""
    x = request.first
    order, inner = flat_order(len(x.shape)), math.prod(x.shape[2:])
    if x.contiguous or not permuted(x, order).contiguous:
        return []
    share = x.shape[1] // request.options["num_groups"]
    tile = _tile(request, share, inner)
    if tile is None:
        return []
    made = job(request, share * inner, (0,), (1, 2), outputs, forward=True, kept=(0,))
    gpu = request.target
    waiting = 1 + max(0.0, tile.memory / AMPLE - 1) * WAITING
    time = made.cost + gpu.launch + 2 * x.numel * x.itemsize * waiting / gpu.bandwidth
    why = f"{tile.groups} groups of a sample per block, turned in shared memory"
    build = functools.partial(_plan, made, tile, share, inner)
    return [Candidate("channels last", time, why, build)]


def _tile(request: Request, share: int, inner: int) -> Tile | None:
    """The groups of a block: as many as fill a line of memory and are worth it, if they fit."""
    x, groups = request.first, request.options["num_groups"]
    pitch, fitting = inner | 1, None  # an odd distance: neighbours are in different banks
    for count in (1, 2, 4, 8):
        memory = count * share * (pitch * x.itemsize + 16)
        if groups % count or memory > MOST:
            break
        fitting = Tile(count, pitch, memory)
        if memory > AMPLE or (count * share * x.itemsize >= LINE and memory > SMALL):
            break
    if fitting is None or fitting.groups * share * x.itemsize < SECTOR:
        return None
    return fitting if fitting.groups * share <= BLOCK * _vector(x, share) else None


def _vector(x: Layout, share: int) -> int:
    """Elements that are read at once, all of one group."""
    return math.gcd(max(1, x.aligned // x.itemsize), share)


def _plan(made: Job, tile: Tile, share: int, inner: int) -> Plan:
    x, width = made.request.first, tile.groups * share
    read = _vector(x, share)
    written = STORED // x.itemsize
    # A vector has the places of at most two channels.
    written = math.gcd(written, width * inner) if inner >= written else 1
    types = f"{source.ctype(made.dtype)}, {source.ctype(made.weight)}"
    name = f"groups_last<{types}, {read}, {written}, {tile.groups}>"
    tiles = x.shape[1] // width
    saved = [made.output(i) for i in (1, 2)] if len(made.outputs) > 1 else [None, None]
    numbers = (x.shape[1], inner, share, tile.pitch, tiles, epsilon(made.request))
    args = (*made.inputs, made.output(0), *saved, *numbers)
    kernel = source.kernel("norm/groups_last.cu", name)
    return made.plan(Step(kernel, (x.shape[0] * tiles,), (BLOCK,), args, tile.memory))
