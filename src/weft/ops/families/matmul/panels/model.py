"""Cost model of products of 16-bit elements whose K, or panels of it, are in shared memory at once.

The constants of rows that begin at any element were fitted on an NVIDIA H200 to
benchmarks/records/half_products.jsonl, those of a whole K to short_calls.jsonl.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.model import BLOCK_RESERVED
from weft.ops.core.target import Target
from weft.ops.families.matmul.half_model import HALF_JOIN
from weft.ops.families.matmul.model import traffic
from weft.ops.families.matmul.product import Product, Side


class PanelTile(NamedTuple):
    """A tile of C: the parts computed by a block and by a warp.

    resident  blocks that an SM holds, if shared memory allows
    """

    bm: int
    bn: int
    wm: int
    wn: int
    resident: int

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32

    def shared(self, depth: int, a: Side, b: Side) -> int:
        """Bytes of shared memory: both panels, or later the results of all warps."""
        panels = sum(_panel(*of, depth) for of in ((self.bm, a), (self.bn, b)))
        return 2 * max(panels, self.threads // 32 * self.wm * (self.wn + 8))

    def fitting(self, shared: int, gpu: Target) -> int:
        """Blocks of so much shared memory that an SM holds; 0 if none fits."""
        if shared > gpu.shared_per_block:
            return 0
        return min(self.resident, gpu.shared_per_sm // (shared + BLOCK_RESERVED))

    def whole_time(self, p: Product, blocks: int, gpu: Target) -> float:
        """Modelled seconds, if K is in shared memory at once and all blocks begin together."""
        depth = cdiv(p.k, WHOLE_STEP) * WHOLE_STEP
        copies = 2 * (self.bm + self.bn) * depth / WHOLE_RATE
        work = max(1.0, blocks / gpu.sms) * (WHOLE_BLOCK + copies)
        return gpu.launch + work + WHOLE_MEMORY * traffic(p) / gpu.bandwidth


def _panel(size: int, x: Side, depth: int) -> int:
    """Elements of a panel, whose rows are 16 bytes longer than what they hold."""
    return size * (depth + 8) if x.k_major else depth * (size + 8)


WHOLE_STEP = 16
"""The depths of a whole K are multiples of it: the K of an instruction."""
WHOLE_BLOCK = 0.05e-6
"""Seconds of an SM for a block, beside its copies; the launch has those of the first one's start
(short_calls.jsonl)."""
WHOLE_RATE = 30e9
"""Bytes per second that reach the shared memory of an SM whose blocks copy once and wait
(short_calls.jsonl)."""
WHOLE_MEMORY = 0.4
"""Time of the traffic of all blocks relative to the bandwidth of memory: little of it is beside
other work (short_calls.jsonl)."""
WHOLE_TILES = (
    PanelTile(bm=128, bn=64, wm=32, wn=32, resident=3),
    PanelTile(bm=64, bn=64, wm=16, wn=32, resident=4),
    PanelTile(bm=64, bn=32, wm=16, wn=32, resident=8),
    PanelTile(bm=32, bn=64, wm=16, wn=32, resident=8),
    PanelTile(bm=64, bn=16, wm=16, wn=16, resident=8),
    PanelTile(bm=32, bn=32, wm=16, wn=16, resident=8),
)


class UnalignedTile(NamedTuple):
    """A tile for rows that begin at any element.

    over   seconds of a panel, once for the blocks that an SM holds
    block  seconds of an SM for a block, beside those for its panels
    term   seconds of an SM for each of K
    """

    tile: PanelTile
    over: float
    block: float
    term: float

    def time(
        self, p: Product, depth: int, resident: int, blocks: int, splits: int, each: int,
        gpu: Target,
    ) -> float:  # fmt: skip
        """Modelled seconds, for panels of `depth`."""
        most = cdiv(blocks, gpu.sms)
        work = cdiv(most, resident) * cdiv(each, depth) * self.over
        work += most * (self.block + each * self.term)
        time = gpu.launch + max(work, traffic(p) / gpu.bandwidth)
        if splits > 1:
            results = self.tile.bm * self.tile.bn
            time += UNALIGNED_SPLIT_OVERHEAD + splits * HALF_JOIN * 4 * results
        return time


UNALIGNED_SPLIT_OVERHEAD = 3.5e-6
"""Seconds, as SPLIT_OVERHEAD."""
UNALIGNED_TILES = (
    UnalignedTile(
        PanelTile(bm=128, bn=128, wm=32, wn=64, resident=2),
        over=1.3e-6, block=2.4e-6, term=17.6e-9,
    ),
    UnalignedTile(
        PanelTile(bm=64, bn=64, wm=32, wn=32, resident=4),
        over=2.2e-6, block=0.5e-6, term=6.0e-9,
    ),
    UnalignedTile(
        PanelTile(bm=32, bn=64, wm=16, wn=32, resident=6),
        over=1.2e-6, block=0.3e-6, term=5.4e-9,
    ),
    UnalignedTile(
        PanelTile(bm=32, bn=32, wm=16, wn=16, resident=8),
        over=0.7e-6, block=0.2e-6, term=4.0e-9,
    ),
)  # fmt: skip
