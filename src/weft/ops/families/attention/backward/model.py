"""Cost model of attention's gradients: tiles, warpgroups, and streams that are split into parts.

The constants were fitted on an NVIDIA H200: see `model` for the records.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.attention.model import PARTIAL_BANDWIDTH, SLAB_ALIGNMENT

STREAM_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Numbers of parts that the rows which a block streams are split into."""
PARTIAL_BYTES = 256 << 20
"""The most bytes of partial sums of a call."""
PART_OVERHEAD = 2e-6
"""Seconds of parts beside the launch that adds them, and their bytes."""
STORED_BYTES = 512 << 20
"""The most bytes of gradients of scores that a call stores; more heads are computed in rounds."""
FP32_REACH = 0.35
"""Share of the FP32 peak that the kernels for float32 reach."""
WARPGROUP_FIXED = 4e-6
"""Seconds of the kernels by warpgroups beside their launches and streams."""


class StreamingKernel(NamedTuple):
    """A kernel of gradients.

    blocks   of one part
    tiles    that a block streams
    seconds  of an SM for a block
    sums     floats of one part
    """

    blocks: int
    tiles: int
    seconds: float
    sums: int

    def time(self, parts: int, gpu: Target) -> float:
        """Modelled seconds in so many parts: those of the SM with the most blocks."""
        time = cdiv(self.blocks * parts, gpu.sms) * self.seconds / parts
        if parts == 1:
            return time
        return time + gpu.launch + PART_OVERHEAD + 8 * parts * self.sums / PARTIAL_BANDWIDTH

    def parts(self, gpu: Target) -> int:
        """Return the number of parts with the least modelled time."""
        if self.blocks >= 2 * gpu.sms:
            return 1
        fit = [
            n
            for n in STREAM_PARTS
            if n == 1 or (n <= self.tiles and 4 * n * self.sums <= PARTIAL_BYTES)
        ]
        return min(fit, key=lambda n: self.time(n, gpu))


class BlockTile(NamedTuple):
    """Queries, keys and warps of a block; stages of a ring where it has one."""

    queries: int
    keys: int
    warps: int = 4
    stages: int = 1


class BackwardTiles(NamedTuple):
    """Blocks of the kernels for one head size.

    dq      of the kernel for the gradient of the queries
    dkv     of the kernel for the gradients of keys and values
    stored  of the kernel that multiplies stored gradients of scores by keys
    reach   share of the tensor cores' rate
    paired  two warps have the same keys, and one gradient each
    """

    dq: BlockTile
    dkv: BlockTile
    stored: BlockTile
    reach: float
    paired: bool = False


_SMALL = BlockTile(queries=64, keys=64)
_STORED = BlockTile(queries=128, keys=64, stages=3)
_LARGE_DQ, _LARGE_DKV = BlockTile(queries=64, keys=32), BlockTile(queries=32, keys=32)
_LARGE_STORED = BlockTile(queries=64, keys=32, stages=3)
_DQ = BlockTile(queries=128, keys=32)
BACKWARD_TILES = {
    16: BackwardTiles(dq=_SMALL, dkv=_SMALL, stored=_STORED, reach=0.14),
    32: BackwardTiles(dq=_SMALL, dkv=_SMALL, stored=_STORED, reach=0.17),
    48: BackwardTiles(dq=_DQ, dkv=_SMALL, stored=_STORED, reach=0.18),
    64: BackwardTiles(dq=_DQ, dkv=_SMALL, stored=_STORED, reach=0.2),
    80: BackwardTiles(dq=_DQ, dkv=_SMALL, stored=_STORED, reach=0.22),
    96: BackwardTiles(dq=_DQ, dkv=_SMALL, stored=_STORED, reach=0.3),
    128: BackwardTiles(
        dq=_DQ, dkv=BlockTile(queries=48, keys=64), stored=_STORED, reach=0.29, paired=True
    ),
    192: BackwardTiles(dq=_LARGE_DQ, dkv=_LARGE_DKV, stored=_LARGE_STORED, reach=0.22, paired=True),
    256: BackwardTiles(dq=_LARGE_DQ, dkv=_LARGE_DKV, stored=_LARGE_STORED, reach=0.22, paired=True),
}
"""Tiles by head size."""


class WarpgroupKernel(NamedTuple):
    """A kernel of gradients by warpgroups: streamed rows of a tile, stages of its ring.

    of_keys  the kernel for keys and values, which streams queries; else the reverse
    reach    share of the tensor cores' rate

    For heads of more than 128, the kernel for keys has a warpgroup for each of its two gradients,
    and both compute the scores.
    """

    of_keys: bool
    streamed: int
    stages: int
    reach: float

    def fixed(self, head: int) -> int:
        """Rows of a block: a warpgroup's registers hold up to 256 columns of gradients."""
        return 64 if self.of_keys and head > 128 else 128

    def shared(self, head: int) -> int:
        """Bytes of shared memory; columns are stored in slabs of 64."""
        rows = self.fixed(head) + self.stages * self.streamed
        return SLAB_ALIGNMENT + 128 * cdiv(head, 64) * 2 * rows


def _pair(
    streamed: tuple[int, int], stages: tuple[int, int], reach: tuple[float, float]
) -> tuple[WarpgroupKernel, WarpgroupKernel]:
    """The kernels for keys and for queries, from the numbers of both."""
    keys, queries = zip((True, False), streamed, stages, reach, strict=True)
    return WarpgroupKernel(*keys), WarpgroupKernel(*queries)


WARPGROUP_KERNELS = {
    48: _pair(streamed=(64, 128), stages=(4, 3), reach=(0.42, 0.42)),
    64: _pair(streamed=(64, 128), stages=(4, 3), reach=(0.45, 0.45)),
    80: _pair(streamed=(64, 96), stages=(4, 3), reach=(0.49, 0.49)),
    96: _pair(streamed=(64, 96), stages=(4, 3), reach=(0.54, 0.54)),
    128: _pair(streamed=(64, 96), stages=(4, 3), reach=(0.59, 0.59)),
    192: _pair(streamed=(64, 64), stages=(3, 2), reach=(0.45, 0.56)),
    256: _pair(streamed=(48, 48), stages=(3, 2), reach=(0.39, 0.58)),
}
"""Kernels for keys and for queries by head size."""
