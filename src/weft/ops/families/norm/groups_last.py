"""Plan group norm of tensors whose channels are last in memory, without a copy of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Layout, Plan, Step
from weft.ops.families.norm import model
from weft.ops.families.norm.channels import flat_order, permuted
from weft.ops.families.norm.forward import epsilon
from weft.ops.families.norm.rows import BLOCK, RowJob, row_job


class ChannelsLastTile(NamedTuple):
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
    made = row_job(request, share * inner, (0,), (1, 2), outputs, forward=True, in_place=(0,))
    gpu = request.target
    moved = 2 * x.numel * x.itemsize
    ample, penalty = model.CHANNELS_LAST_TILE_BYTES, model.CHANNELS_LAST_PENALTY
    time = made.cost + gpu.launch + model.tile_time(gpu, moved, tile.memory, ample, penalty)
    why = f"{tile.groups} groups of a sample per block, transposed in shared memory"
    build = functools.partial(_plan, made, tile, share, inner)
    return [Candidate("channels last", time, why, build)]


def _tile(request: Request, share: int, inner: int) -> ChannelsLastTile | None:
    """The groups of a block: as many as fill a line of memory and are worth it, if they fit."""
    x, groups = request.first, request.options["num_groups"]
    pitch, fitting = inner | 1, None  # an odd distance: neighbours are in different banks
    for count in (1, 2, 4, 8):
        memory = count * share * (pitch * x.itemsize + 16)
        if groups % count or memory > model.GROUP_TILE_BYTES:
            break
        fitting = ChannelsLastTile(count, pitch, memory)
        line = count * share * x.itemsize >= model.CHANNELS_LAST_LINE
        if memory > model.CHANNELS_LAST_TILE_BYTES or (
            line and memory > model.CHANNELS_LAST_TILE_MIN_BYTES
        ):
            break
    if fitting is None or fitting.groups * share * x.itemsize < model.SECTOR:
        return None
    return fitting if fitting.groups * share <= BLOCK * _vector(x, share) else None


def _vector(x: Layout, share: int) -> int:
    """Elements that are read at once, all of one group."""
    return math.gcd(max(1, x.aligned // x.itemsize), share)


def _plan(made: RowJob, tile: ChannelsLastTile, share: int, inner: int) -> Plan:
    x, width = made.request.first, tile.groups * share
    read = _vector(x, share)
    written = model.CHANNELS_LAST_STORE // x.itemsize
    # A vector has the places of at most two channels.
    written = math.gcd(written, width * inner) if inner >= written else 1
    types = f"{source.ctype(made.dtype)}, {source.ctype(made.weight)}"
    name = f"groups_last<{types}, {read}, {written}, {tile.groups}>"
    tiles = x.shape[1] // width
    saved = [made.output(i) for i in (1, 2)] if len(made.outputs) > 1 else [None, None]
    numbers = (x.shape[1], inner, share, tile.pitch, tiles, epsilon(made.request))
    args = (*made.inputs, made.output(0), *saved, *numbers)
    kernel = source.kernel("norm/groups_last.cu", name)
    return made.plan(Step(kernel, (x.shape[0] * tiles,), (BLOCK,), args, tile.memory, early=True))
