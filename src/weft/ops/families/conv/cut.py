"""Cuts the products of convolutions into tiles for blocks, and their depth into parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import COUNTERS, Argument, Buffer, Counters, Plan
from weft.ops.families.conv.job import Job

SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
"""Parts of a depth that the last block of a tile adds."""
PARTS = (
    1,
    2,
    3,
    4,
    5,
    6,
    8,
    10,
    11,
    12,
    16,
    20,
    22,
    24,
    32,
    44,
    48,
    64,
    66,
    96,
    128,
    132,
    192,
    256,
)
"""Parts of the depth of a gradient of weights, each in memory of its own."""


class Sides(Protocol):
    """A tile of a product, for a block."""

    @property
    def bm(self) -> int: ...
    @property
    def bn(self) -> int: ...


@dataclass(frozen=True)
class Cut:
    """A product as a launch computes it.

    tiles   of a result, along both of its sides
    copies  results: groups, and phases
    splits  parts of the depth, each of `each` steps
    shares  blocks of a result that have `each` steps of all its tiles in a row; else 0
    parts   blocks that sum a tile, at most
    """

    tiles: tuple[int, int]
    copies: int
    splits: int
    each: int
    shares: int = 0
    parts: int = 1

    @property
    def grid(self) -> int:
        """Blocks of one result."""
        return self.shares or self.tiles[0] * self.tiles[1] * self.splits

    @property
    def blocks(self) -> int:
        return self.grid * self.copies

    def __str__(self) -> str:
        if self.shares:
            return f", {self.shares} shares"
        return f", depth in {self.splits}" if self.splits > 1 else ""


def joined(
    tiles: tuple[int, int], copies: int, steps: int, least: int, limit: int
) -> Iterator[Cut]:
    """Cuts whose parts are added by the last block of each tile.

    least  steps of a part
    limit  tiles of a launch whose depth is cut
    """
    few = tiles[0] * tiles[1] * copies <= min(COUNTERS, limit)
    for splits in SPLITS:
        each = cdiv(steps, splits)
        if splits == 1 or (few and each >= least and cdiv(steps, each) == splits):
            yield Cut(tiles, copies, splits, each, parts=splits)


def separate(
    tiles: tuple[int, int], copies: int, steps: int, least: int, limit: int
) -> Iterator[Cut]:
    """Cuts whose parts are added by another launch; `limit` blocks at most if there are parts."""
    for splits in PARTS:
        cut = Cut(tiles, copies, splits, cdiv(steps, splits))
        whole = cut.each >= least and cdiv(steps, cut.each) == splits
        if splits == 1 or (whole and cut.blocks <= limit):
            yield cut


def shared(
    tiles: tuple[int, int], copies: int, steps: int, resident: int, sms: int
) -> Iterator[Cut]:
    """Cuts into equal shares of the steps of all tiles, for as many blocks as are resident."""
    total = tiles[0] * tiles[1] * steps
    blocks = [max(1, number * sms // copies) for number in range(1, resident + 1)]
    for each in sorted({max(2, cdiv(total, b)) for b in blocks}):
        parts = 1 + cdiv(steps, each) if each % steps else 1
        cut = Cut(tiles, copies, 1, each, cdiv(total, each), parts)
        if total < 2**31 and cut.blocks <= COUNTERS:
            yield cut


def joining(tile: Sides, cut: Cut) -> float:
    """Seconds in which the last block of a tile adds its parts."""
    return 2e-6 + cut.parts * 2e-11 * 4 * tile.bm * tile.bn if cut.parts > 1 else 0.0


def memory(
    job: Job, tile: Sides, cut: Cut, before: tuple[Buffer, ...] = ()
) -> tuple[tuple[Argument, Argument], tuple[Buffer, ...]]:
    """The arguments of a launch for parts that its blocks add, and all scratch buffers."""
    if cut.parts == 1:
        return (None, None), before
    # A share is in the midst of two tiles at most.
    size = cut.blocks * tile.bm * tile.bn * (2 if cut.shares else 1)
    return (job.place(len(before)), Counters()), (*before, Buffer((size,), torch.float32))


def candidate(
    kind: str, job: Job, tile: Sides, cut: Cut, cost: float, build: Callable[[], Plan]
) -> Candidate:
    why = f"{cut.blocks} blocks for {job.gpu.sms} SMs"
    return Candidate(f"{kind}{tile.bm} x {tile.bn}{cut}", cost, why, build)


def cheapest(candidates: Iterable[Candidate], most: int) -> list[Candidate]:
    return sorted(candidates, key=lambda c: c.cost)[:most]
