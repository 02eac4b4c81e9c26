"""Tiles of the fused block's convolution, and the model that ranks them."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.block.shape import Shape
from weft.ops.target import Target

REGISTERS = 65536
"""Of an SM."""
COLUMNS, STRIPS, IMAGES = (4, 5, 6, 7, 8), (4, 5, 6, 7, 8), (1, 2)
"""Pooled columns of a strip, strips of an image in a block, and images of a block."""
RESERVED = 1024
"""Bytes of shared memory that a block takes besides its own."""


class Tile(NamedTuple):
    """Template parameters of ConvTile; see cuda/block/conv_block.cuh."""

    filters_per_lane: int
    pooled_columns: int
    strips: int
    images: int
    channels: int
    stages: int

    @property
    def threads(self) -> int:
        return 32 * self.strips * self.images

    def registers(self, p: Shape) -> int:
        """An estimate: results, weights, a row of pixels, and addresses."""
        across = _across(self, p)
        results = 4 * self.pooled_columns * self.filters_per_lane
        return results + p.filter_rows * p.filter_columns * self.filters_per_lane + across + 36

    def shared(self, p: Shape, training: bool) -> int:
        """Bytes of shared memory: the ring, then the results on their way out."""
        filters = 32 * self.filters_per_lane
        weights = cdiv(self.channels * p.filter_rows * p.filter_columns * (filters + 2), 4) * 4
        rows = 2 * self.strips + p.filter_rows - 1
        pixels = self.images * self.channels * rows * _across(self, p)
        area = self.strips * self.pooled_columns * (4 if training else 1)
        return 4 * max(self.stages * (weights + pixels), self.images * filters * (area | 1))

    def fixed(self, training: bool) -> int:
        """Bytes of shared memory that the kernel declares itself."""
        return 12 * self.strips * self.images * 32 * self.filters_per_lane if training else 0

    def resident(self, p: Shape, training: bool, target: Target) -> int:
        """Blocks of an SM."""
        memory = self.shared(p, training) + self.fixed(training) + RESERVED
        by_registers = REGISTERS // (self.threads * cdiv(self.registers(p), 8) * 8)
        return min(target.shared_per_sm // memory, by_registers,
                   target.threads_per_sm // self.threads)  # fmt: skip

    def grid(self, p: Shape, training: bool) -> tuple[int, int, int, int]:
        """Tiles down and across, blocks, and groups of filters."""
        # Training needs the whole convolution; a last row or column has no window.
        rows, columns = (cdiv(p.rows, 2), cdiv(p.columns, 2)) if training else p.pooled
        down, across = cdiv(rows, self.strips), cdiv(columns, self.pooled_columns)
        blocks = cdiv(p.images, self.images) * down * across
        return down, across, blocks, cdiv(p.filters, 32 * self.filters_per_lane)

    def time(self, p: Shape, training: bool, target: Target) -> float:
        """Modelled seconds of the multiplications."""
        resident = self.resident(p, training, target)
        *_, blocks, groups = self.grid(p, training)
        taps = p.filter_rows * p.filter_columns
        products = 4 * self.pooled_columns * self.filters_per_lane * taps
        reads = (p.filter_rows + 1) * _across(self, p) // 4 + taps
        cycles = p.channels * (products + 1.4 * reads) + 4000  # a block's begin and end
        waves = cdiv(blocks * groups, target.sms * resident)
        last = blocks * groups - (waves - 1) * target.sms * resident
        busy = (waves - 1) * resident + cdiv(last, target.sms)  # blocks of the busiest SM
        warps = self.threads // 32
        rate = target.fp32 / (target.sms * 256)  # cycles per second
        # Four schedulers share the warps; fewer than two each do not hide latencies.
        together = min(resident, max(1, cdiv(last, target.sms) if waves == 1 else resident))
        hidden = 1.0 if warps * together >= 12 else 12 / (warps * together) * 0.5 + 0.5
        return math.ceil(busy * warps / 4) * cycles * hidden / rate


def _across(tile: Tile, p: Shape) -> int:
    """Columns of pixels in shared memory."""
    return cdiv(2 * tile.pooled_columns + p.filter_columns - 1, 4) * 4


def tiles(p: Shape, training: bool, target: Target) -> list[Tile]:
    """Tiles that an SM has room for."""
    lanes = (1, 2) if p.filters > 32 and p.filter_rows * p.filter_columns <= 25 else (1,)
    # Channels that are loaded at once: few left over at the end, else many.
    depths = sorted((8, 4, 3, 2, 1), key=lambda n: (cdiv(p.channels, n) * n, -n))
    options = (
        next(
            (t for t in (Tile(*sides, n, 3) for n in depths) if _fits(t, p, training, target)), None
        )
        for sides in itertools.product(lanes, COLUMNS, STRIPS, IMAGES)
    )
    return [t for t in options if t is not None]


def _fits(tile: Tile, p: Shape, training: bool, target: Target) -> bool:
    memory = tile.shared(p, training) + tile.fixed(training)
    return memory <= target.shared_per_block and tile.resident(p, training, target) > 0
