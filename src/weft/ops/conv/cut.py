"""Cuts the products of convolutions into tiles for blocks, and their depth into parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch

from weft.kernels import cdiv
from weft.ops.choose import Candidate
from weft.ops.conv.job import Job
from weft.ops.plan import COUNTERS, Argument, Buffer, Counters, Plan

SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
"""Parts of a depth that the last block of a tile adds."""
PARTS = (1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 16, 20, 22, 24, 32, 44, 48, 64, 96, 128, 192, 256)
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
    """

    tiles: tuple[int, int]
    copies: int
    splits: int
    each: int

    @property
    def count(self) -> int:
        """Tiles of one result."""
        return self.tiles[0] * self.tiles[1]

    @property
    def blocks(self) -> int:
        return self.count * self.copies * self.splits


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
            yield Cut(tiles, copies, splits, each)


def separate(
    tiles: tuple[int, int], copies: int, steps: int, least: int, limit: int
) -> Iterator[Cut]:
    """Cuts whose parts are added by another launch; `limit` blocks at most if there are parts."""
    for splits in PARTS:
        cut = Cut(tiles, copies, splits, cdiv(steps, splits))
        whole = cut.each >= least and cdiv(steps, cut.each) == splits
        if splits == 1 or (whole and cut.blocks <= limit):
            yield cut


def joining(tile: Sides, cut: Cut) -> float:
    """Seconds in which the last blocks add the parts of their tiles."""
    return 2e-6 + cut.splits * 2e-11 * 4 * tile.bm * tile.bn if cut.splits > 1 else 0.0


def memory(
    job: Job, tile: Sides, cut: Cut, before: tuple[Buffer, ...] = ()
) -> tuple[tuple[Argument, Argument], tuple[Buffer, ...]]:
    """The arguments of a launch for parts that its blocks add, and all scratch buffers."""
    if cut.splits == 1:
        return (None, None), before
    size = cut.blocks * tile.bm * tile.bn
    return (job.place(len(before)), Counters()), (*before, Buffer((size,), torch.float32))


def candidate(
    kind: str, job: Job, tile: Sides, cut: Cut, cost: float, build: Callable[[], Plan]
) -> Candidate:
    parts = f", depth in {cut.splits}" if cut.splits > 1 else ""
    why = f"{cut.blocks} blocks for {job.gpu.sms} SMs"
    return Candidate(f"{kind}{tile.bm} x {tile.bn}{parts}", cost, why, build)


def cheapest(candidates: Iterable[Candidate], most: int) -> list[Candidate]:
    return sorted(candidates, key=lambda c: c.cost)[:most]
