"""Cost model of attention's gradients by five products: tiles, and their modelled seconds.

The constants were fitted on an NVIDIA H200: benchmarks/records/attention_gradients.jsonl.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.attention.problem import Problem

KEYS = 128
"""Keys of a block."""
ALIGNMENT = 1024
"""Bytes that tiles in shared memory begin at multiples of."""
STRIP_OVERHEAD = 4e-6
"""Seconds of a block of keys beside its products."""
WHOLE_OVERHEAD = 0.8e-6
"""The same if it has all keys of a head."""
LEAST = 64
"""Queries and keys from which on blocks of this size are not mostly empty."""
CHAIN = 2.2e-6
"""Seconds after which the next block of keys of a head adds its first part of dQ. Under a causal
mask the next one has less to do, and ends no later."""


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
    """

    queries: int
    ring: int
    douts: int
    blocks: int
    scores: int
    sums: int
    reach: float

    @property
    def words(self) -> tuple[int, ...]:
        """Arguments of the kernel's template behind the queries."""
        return self[1:6]

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


def covers(p: Problem, gpu: Target) -> bool:
    """True for calls that these kernels take alone: all such calls of the record are fastest here.

    The models of other kernels leave out what their blocks take beside products, which counts in
    short sequences.
    """
    return strips(p) >= gpu.sms and min(p.rows, p.keys) >= LEAST


def time(tile: StreamedTile, p: Problem, gpu: Target) -> float:
    """Modelled seconds: those of the SM with the most strips, and of the kernels around."""
    rate = 2 * gpu.tf32 / gpu.sms * tile.reach
    step = 10 * KEYS * tile.queries * p.head / rate
    steps = cdiv(p.rows, tile.queries) * p.group
    overhead = WHOLE_OVERHEAD if whole(p) else STRIP_OVERHEAD
    longest, count = overhead + steps * step, strips(p)
    busy = cdiv(count, gpu.sms) * longest
    if p.causal:
        mean = overhead + (p.share * steps + 1) * step
        busy = min(busy, max(longest, count / gpu.sms * mean))
    rows = p.batch * p.heads * p.rows * p.head
    moved, launches = (rows * 4, 2) if whole(p) else (rows * 10, 3)
    chain = 0.0 if p.causal else CHAIN * (cdiv(p.keys, KEYS) - 1)
    return launches * gpu.launch + busy + chain + moved / gpu.bandwidth


TILES: dict[int, tuple[StreamedTile, ...]] = {
    64: (StreamedTile(96, ring=3, douts=2, blocks=2, scores=1, sums=2, reach=0.455),),
    128: (StreamedTile(64, ring=3, douts=2, blocks=1, scores=1, sums=2, reach=0.54),),
}
"""Tiles by head size. Those of 80 and 96 compile, and have not been timed."""
