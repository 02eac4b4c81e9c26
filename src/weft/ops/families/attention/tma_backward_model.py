"""Cost model of attention's gradients by five products: tiles, and their modelled seconds."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.attention.problem import Problem

KEYS = 128
"""Keys of a block."""
ALIGNMENT = 1024
"""Bytes that tiles in shared memory begin at multiples of."""
FIXED = 6e-6
"""Seconds of a call beside its launches and strips."""
STRIP_OVERHEAD = 2.5e-6
"""Seconds of a block of keys beside its products."""


def sum_floats(head: int, queries: int) -> int:
    """Floats of dQ for a tile of queries."""
    return queries * (128 if head > 64 else 64)


class StreamedTile(NamedTuple):
    """A tile of queries and the rings of a block.

    queries  of a tile
    ring     tiles of queries
    douts    tiles of the gradients of results
    blocks   of keys and values
    scores   tiles of the gradients of scores
    sums     tiles of dQ
    reach    share of the tensor cores' rate
    held     keys and values are left operands in registers
    ordered  parts of dQ are added in the order of the keys, so that all runs have the same bits
    """

    queries: int
    ring: int
    douts: int
    blocks: int
    scores: int
    sums: int
    reach: float
    held: bool = False
    ordered: bool = True

    @property
    def words(self) -> tuple[object, ...]:
        """Arguments of the kernel's template behind the queries."""
        return (*self[1:6], self.held, self.ordered)

    def shared(self, head: int) -> int:
        """Bytes of shared memory; columns are stored in slabs of 64."""
        row = 128 * cdiv(head, 64)
        tiles = row * ((self.ring + self.douts) * self.queries + 2 * self.blocks * KEYS)
        scores = self.scores * 128 * KEYS * (cdiv(self.queries, 64) if head > 64 else 2)
        return ALIGNMENT + tiles + scores + self.sums * 4 * sum_floats(head, self.queries)


def strips(p: Problem) -> int:
    """Blocks of keys of a call."""
    return cdiv(p.keys, KEYS) * p.batch * (p.heads // p.group)


def whole(p: Problem) -> bool:
    """True if a block has all keys of a head, and stores dQ, which TMA can copy."""
    return p.keys <= KEYS and p.depth % 8 == 0


def time(tile: StreamedTile, p: Problem, gpu: Target) -> float:
    """Modelled seconds: those of the SM with the most strips, and of the kernels around."""
    rate = 2 * gpu.tf32 / gpu.sms * tile.reach
    step = 10 * KEYS * tile.queries * p.head / rate
    steps = cdiv(p.rows, tile.queries) * p.group
    longest = STRIP_OVERHEAD + steps * step
    count = strips(p)
    busy = cdiv(count, gpu.sms) * longest
    if p.causal:
        mean = STRIP_OVERHEAD + (p.share * steps + 1) * step
        busy = max(longest, count / gpu.sms * mean)
    rows = p.batch * p.heads * p.rows * p.head
    moved, launches = (rows * 4, 2) if whole(p) else (rows * 10, 3)
    return launches * gpu.launch + FIXED + busy + moved / gpu.bandwidth


TILES: dict[int, tuple[StreamedTile, ...]] = {
    64: (StreamedTile(96, ring=3, douts=2, blocks=1, scores=2, sums=2, reach=0.5),),
    96: (StreamedTile(64, ring=3, douts=2, blocks=1, scores=1, sums=2, reach=0.5),),
    128: (StreamedTile(64, ring=3, douts=2, blocks=1, scores=1, sums=2, reach=0.55),),
}
"""Tiles by head size."""
