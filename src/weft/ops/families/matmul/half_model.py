"""Cost model of products of 16-bit elements: tiles of tensor cores and their modelled seconds.

Every constant was fitted on an NVIDIA H200 to benchmarks/records/half_products.jsonl. `reach` is
the share of the tensor cores' dense rate in the loop over K, `over` the seconds before and after
that loop, once for the blocks that an SM holds.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.matmul.model import SPLIT_OVERHEAD, streamed
from weft.ops.families.matmul.product import Product


# ---- f16 and bf16, tensor cores ----------------------------------------------------------------
class HalfTile(NamedTuple):
    """A tile of C in 16 bits: the parts computed by a block and by a warp.

    resident  blocks that an SM holds
    reach     share of the tensor cores' dense rate
    over      seconds, see above
    """

    bm: int
    bn: int
    bk: int
    wm: int
    wn: int
    stages: int
    resident: int
    reach: float
    over: float

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32

    @property
    def shared(self) -> int:
        """Bytes of shared memory: the stages, or later the results of all warps."""
        stages = 2 * self.stages * self.bk * (self.bm + self.bn)
        return max(stages, self.threads // 32 * self.wm * (self.wn + 8) * 2)

    def time(
        self, p: Product, copied: int, tiles: int, splits: int, each: int, gpu: Target
    ) -> float:
        """Modelled seconds, if operands are copied by so many bytes at a time."""
        waves = cdiv(tiles * splits * p.batch, gpu.sms)
        busy = min(1.0, min(waves, self.resident) * self.threads / 256)
        rate = 2 * gpu.tf32 / gpu.sms * self.reach * busy * COPY_RATE[copied]
        work = waves * 2 * self.bm * self.bn * each / rate
        work += cdiv(waves, self.resident) * self.over
        memory = HALF_STREAM * streamed(p, tiles * splits * p.batch, gpu.sms, gpu)
        time = gpu.launch + max(work, memory)
        if splits > 1:
            time += SPLIT_OVERHEAD + splits * HALF_JOIN * 4 * self.bm * self.bn
        return time


def _half(
    bm: int, bn: int, wm: int, wn: int, stages: int, resident: int, reach: float, over: float
) -> HalfTile:
    return HalfTile(bm, bn, 64, wm, wn, stages, resident, reach, over)


HALF_TILES = (
    _half(bm=128, bn=256, wm=64, wn=64, stages=3, resident=1, reach=0.42, over=4e-6),
    _half(bm=128, bn=128, wm=64, wn=64, stages=3, resident=2, reach=0.39, over=4e-6),
    _half(bm=64, bn=128, wm=32, wn=64, stages=3, resident=2, reach=0.36, over=3e-6),
    _half(bm=64, bn=64, wm=32, wn=32, stages=4, resident=3, reach=0.33, over=2e-6),
    _half(bm=32, bn=64, wm=16, wn=32, stages=4, resident=4, reach=0.22, over=2e-6),
    _half(bm=32, bn=32, wm=16, wn=16, stages=4, resident=6, reach=0.14, over=1.5e-6),
)
HALF_ANY_ROW_TILES = (
    _half(bm=128, bn=128, wm=64, wn=32, stages=3, resident=1, reach=0.39, over=8e-6),
    _half(bm=64, bn=64, wm=32, wn=32, stages=3, resident=2, reach=0.33, over=8e-6),
    _half(bm=32, bn=32, wm=16, wn=16, stages=3, resident=4, reach=0.14, over=3e-6),
)
"""For rows that begin at any element: their vectors wait in registers for a stage."""
COPY_RATE = {16: 1.0, 8: 0.85, 4: 0.6, 2: 0.25}
"""Relative rate by the bytes of a copy."""
HALF_STREAM = 1.25
"""Time relative to the bandwidth where memory is the limit (pipelined_products.jsonl)."""
HALF_JOIN = 2.5e-11
"""Seconds per byte of a tile, by which each part of K makes the last block wait."""


# ---- f16 and bf16, a copy to aligned rows ------------------------------------------------------
ALIGNED_COPY_TIME = 1.3
"""Time of a copy to aligned rows relative to the bandwidth."""
ALIGNED_COPY_LAUNCH = 0.6
"""Time of its launch relative to others: the product after it covers a part of the host's."""


# ---- f16 and bf16, warpgroups ------------------------------------------------------------------
WARPGROUP_ROWS, WARPGROUP_K = 128, 64
"""Rows of a tile of C, and K of a stage."""
SLAB_ALIGNMENT = 1024
"""Bytes that tiles in shared memory begin at multiples of, as wgmma requires."""


class WarpgroupTile(NamedTuple):
    """A tile of C of WARPGROUP_ROWS rows.

    producer  a third warpgroup copies; else two blocks of an SM cover each other's waits
    reach     share of the tensor cores' dense rate
    over      seconds, see above
    block     seconds of each block
    """

    bn: int
    stages: int
    producer: bool
    reach: float
    over: float
    block: float

    @property
    def threads(self) -> int:
        return 384 if self.producer else 256

    @property
    def resident(self) -> int:
        """Blocks that an SM holds."""
        return 1 if self.producer else 2

    @property
    def ring(self) -> int:
        """Bytes of the stages."""
        return 2 * WARPGROUP_K * self.stages * (WARPGROUP_ROWS + self.bn)

    @property
    def shared(self) -> int:
        """Bytes of shared memory: the stages, or later the results of all warps."""
        return SLAB_ALIGNMENT + max(self.ring, 2 * WARPGROUP_ROWS * (self.bn + 8))

    def time(self, gpu: Target, blocks: int, steps: int) -> float:
        """Modelled seconds of the SM with the most blocks, each of so many stages of K."""
        most = cdiv(blocks, gpu.sms)
        work = 2 * WARPGROUP_ROWS * self.bn * steps * WARPGROUP_K
        loop = work / (2 * gpu.tf32 / gpu.sms * self.reach)
        return most * (loop + self.block) + cdiv(most, self.resident) * self.over


WARPGROUP_TILES = (
    WarpgroupTile(bn=256, stages=4, producer=True, reach=0.65, over=4.8e-6, block=0.0),
    WarpgroupTile(bn=128, stages=3, producer=False, reach=0.58, over=2.3e-6, block=1.1e-6),
)
