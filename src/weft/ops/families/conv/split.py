"""Split the depth of a convolution's products among blocks: split-K and stream-K."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import COUNTERS, Argument, Buffer, Counters, Plan
from weft.ops.families.conv import model
from weft.ops.families.conv.job import ConvJob


class Sides(Protocol):
    """A tile of a product, for a block."""

    @property
    def bm(self) -> int: ...
    @property
    def bn(self) -> int: ...


@dataclass(frozen=True)
class Split:
    """A product as a launch computes it.

    tiles     of a result, along both of its sides
    copies    results: groups, and phases
    splits    parts of the depth, each of `each` steps
    stream_k  blocks of a result that have `each` steps of all its tiles in a row; else 0
    parts     blocks that sum a tile, at most
    """

    tiles: tuple[int, int]
    copies: int
    splits: int
    each: int
    stream_k: int = 0
    parts: int = 1

    @property
    def grid(self) -> int:
        """Blocks of one result."""
        return self.stream_k or self.tiles[0] * self.tiles[1] * self.splits

    @property
    def blocks(self) -> int:
        return self.grid * self.copies

    def __str__(self) -> str:
        if self.stream_k:
            return f", stream-K by {self.stream_k}"
        return f", depth in {self.splits}" if self.splits > 1 else ""


def serial_split_k(
    tiles: tuple[int, int], copies: int, steps: int, least: int, limit: int
) -> Iterator[Split]:
    """Split the depth into parts that the last block of each tile adds.

    least  steps of a part
    limit  tiles of a launch whose depth is split
    """
    room = tiles[0] * tiles[1] * copies <= min(COUNTERS, limit)
    for splits in model.SERIAL_SPLITS:
        each = cdiv(steps, splits)
        if splits == 1 or (room and each >= least and cdiv(steps, each) == splits):
            yield Split(tiles, copies, splits, each, parts=splits)


def parallel_split_k(
    tiles: tuple[int, int], copies: int, steps: int, least: int, limit: int
) -> Iterator[Split]:
    """Split the depth into parts that another launch adds; at most `limit` blocks if split."""
    for splits in model.PARALLEL_SPLITS:
        split = Split(tiles, copies, splits, cdiv(steps, splits))
        whole = split.each >= least and cdiv(steps, split.each) == splits
        if splits == 1 or (whole and split.blocks <= limit):
            yield split


def stream_k(
    tiles: tuple[int, int], copies: int, steps: int, resident: int, sms: int
) -> Iterator[Split]:
    """Divide the steps of all tiles equally among as many blocks as are resident."""
    total = tiles[0] * tiles[1] * steps
    blocks = [max(1, number * sms // copies) for number in range(1, resident + 1)]
    for each in sorted({max(2, cdiv(total, b)) for b in blocks}):
        parts = 1 + cdiv(steps, each) if each % steps else 1
        split = Split(tiles, copies, 1, each, cdiv(total, each), parts)
        if total < 2**31 and split.blocks <= COUNTERS:
            yield split


def joining_time(tile: Sides, split: Split) -> float:
    """Seconds in which the last block of a tile adds its parts."""
    if split.parts == 1:
        return 0.0
    return model.JOIN_OVERHEAD + split.parts * model.JOIN * 4 * tile.bm * tile.bn


def partial_memory(
    job: ConvJob, tile: Sides, split: Split, before: tuple[Buffer, ...] = ()
) -> tuple[tuple[Argument, Argument], tuple[Buffer, ...]]:
    """The arguments of a launch for parts that its blocks add, and all scratch buffers."""
    if split.parts == 1:
        return (None, None), before
    # A block of stream-K begins and ends inside of two tiles at most.
    size = split.blocks * tile.bm * tile.bn * (2 if split.stream_k else 1)
    return (job.scratch_at(len(before)), Counters()), (*before, Buffer((size,), torch.float32))


def candidate(
    kind: str, job: ConvJob, tile: Sides, split: Split, cost: float, build: Callable[[], Plan]
) -> Candidate:
    why = f"{split.blocks} blocks for {job.gpu.sms} SMs"
    return Candidate(f"{kind}{tile.bm} x {tile.bn}{split}", cost, why, build)


def cheapest(candidates: Iterable[Candidate], most: int) -> list[Candidate]:
    return sorted(candidates, key=lambda c: c.cost)[:most]
