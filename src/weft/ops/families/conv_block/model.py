"""Cost model of the fused block: its tiles, their modelled seconds, and the traffic of the rest.

The constants were fitted by hand to times on an NVIDIA H200.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.model import BLOCK_RESERVED
from weft.ops.core.target import Target
from weft.ops.families.conv_block.shape import ConvBlockSizes

SM_REGISTERS = 65536
"""Registers of an SM."""
SIDES = (4, 5, 6, 7, 8)
"""Pooled columns of a strip, and strips of an image in a block; of smaller images, all of them."""
IMAGES = (1, 2, 4, 8)
"""Images of a block: more than two if they have few strips."""
STRIPS = 16
"""The most strips of all images of a block."""
DEPTHS = (8, 4, 3, 2, 1)
"""Channels that are loaded at once."""
FILTERS = ((8, 2), (8, 4), (16, 2), (32, 1), (16, 4), (32, 2))
"""Lanes of a strip, and filters of a lane."""
THREAD_REGISTERS = 232
"""The most registers of a thread by estimate: it may be exceeded by some, and 255 is the most."""


class Cycles(NamedTuple):
    """Clock cycles of an SM.

    pixels   of shared memory for a vector of pixels of a warp
    weight   of shared memory for a weight of a warp
    exposed  the part of both that other warps do not hide
    issue    instructions beside products, for each load of pixels or weights
    block    of a block's begin and end
    stall    in which blocks wait for their next channels
    """

    pixels: float
    weight: float
    exposed: float
    issue: float
    block: float
    stall: float


CYCLES = Cycles(pixels=8.0, weight=2.0, exposed=0.4, issue=1.4, block=6000.0, stall=2500.0)


class Traffic(NamedTuple):
    """Tensors of the convolution's size that a stage reads or writes.

    apply      batch norm, ReLU and pooling in evaluation, which writes a quarter
    normalise  the same in training, with statistics of the fused convolution
    moments    the statistics of a convolution of its own, then `normalise`
    backward   both kernels of the gradient
    """

    apply: float
    normalise: float
    moments: float
    backward: float


TRAFFIC = Traffic(apply=1.25, normalise=1.25, moments=2.25, backward=3.5)


class FusedTile(NamedTuple):
    """Template parameters of ConvTile; see fused.cuh."""

    lanes: int
    per_lane: int
    pooled_columns: int
    strips: int
    images: int
    channels: int
    stages: int

    @property
    def threads(self) -> int:
        return self.lanes * self.strips * self.images

    @property
    def filters(self) -> int:
        return self.lanes * self.per_lane

    def registers(self, p: ConvBlockSizes) -> int:
        """An estimate: results, weights, a row of pixels, and addresses."""
        results = 4 * self.pooled_columns * self.per_lane
        return results + p.filter_rows * p.filter_columns * self.per_lane + _across(self, p) + 36

    def shared(self, p: ConvBlockSizes, training: bool) -> int:
        """Bytes of shared memory: the ring, then the results on their way out."""
        pitch = self.filters + max(2, self.per_lane)
        weights = cdiv(self.channels * p.filter_rows * p.filter_columns * pitch, 4) * 4
        rows = 2 * self.strips + p.filter_rows - 1
        pixels = self.images * self.channels * rows * _across(self, p)
        area = self.strips * self.pooled_columns * (4 if training else 1)
        return 4 * max(self.stages * (weights + pixels), self.images * self.filters * (area | 1))

    def fixed(self, training: bool) -> int:
        """Bytes of shared memory that the kernel declares itself."""
        return 12 * self.strips * self.images * self.filters if training else 0

    def resident(self, p: ConvBlockSizes, training: bool, target: Target) -> int:
        """Blocks of an SM."""
        memory = self.shared(p, training) + self.fixed(training) + BLOCK_RESERVED
        by_registers = SM_REGISTERS // (self.threads * cdiv(self.registers(p), 8) * 8)
        return min(
            target.shared_per_sm // memory, by_registers, target.threads_per_sm // self.threads
        )

    def grid(self, p: ConvBlockSizes, training: bool) -> tuple[int, int, int, int]:
        """Tiles down and across, blocks, and groups of filters."""
        # Training needs the whole convolution; a last row or column has no window.
        rows, columns = (cdiv(p.rows, 2), cdiv(p.columns, 2)) if training else p.pooled
        down, across = cdiv(rows, self.strips), cdiv(columns, self.pooled_columns)
        blocks = cdiv(p.images, self.images) * down * across
        return down, across, blocks, cdiv(p.filters, self.filters)

    def time(self, p: ConvBlockSizes, training: bool, target: Target) -> float:
        """Modelled seconds of the multiplications."""
        resident = self.resident(p, training, target)
        *_, blocks, groups = self.grid(p, training)
        waves = cdiv(blocks * groups, target.sms * resident)
        last = cdiv(blocks * groups - (waves - 1) * target.sms * resident, target.sms)
        warps = self.threads // 32 * ((waves - 1) * resident + last)  # of the busiest SM
        taps = p.filter_rows * p.filter_columns
        pixels = (p.filter_rows + 1) * _across(self, p) // 4
        issued = 4 * self.pooled_columns * self.per_lane * taps + CYCLES.issue * (pixels + taps)
        # Four schedulers share the warps; shared memory serves one after the other.
        busy = min(4, self.threads // 32 * resident)
        schedulers = math.ceil(warps / busy) * issued
        memory = warps * (CYCLES.pixels * pixels + CYCLES.weight * self.per_lane * taps)
        chunks = cdiv(p.channels, self.channels)
        cycles = chunks * self.channels * max(schedulers + CYCLES.exposed * memory, memory)
        cycles += (CYCLES.block + chunks * CYCLES.stall) * waves
        return cycles / (target.fp32 / (target.sms * 256))


def _across(tile: FusedTile, p: ConvBlockSizes) -> int:
    """Columns of pixels in shared memory."""
    return cdiv(2 * tile.pooled_columns + p.filter_columns - 1, 4) * 4


def tiles(p: ConvBlockSizes, training: bool, target: Target) -> list[FusedTile]:
    """Tiles that an SM has room for."""
    rows, columns = (cdiv(n, 2) for n in (p.rows, p.columns)) if training else p.pooled
    sides = itertools.product(FILTERS, _sides(columns), _sides(rows), IMAGES, _depths(p.channels))
    made = (
        FusedTile(*lanes, columns, strips, images, depth, 3)
        for lanes, columns, strips, images, depth in sides
        if images * strips <= STRIPS
    )
    return [t for t in made if _fits(t, p, training, target)]


def _depths(channels: int) -> list[int]:
    """Channels that are loaded at once: few left over at the end, and few barriers."""
    return sorted(DEPTHS, key=lambda n: cdiv(channels, n) * (n + 0.5))[:2]


def _sides(most: int) -> tuple[int, ...]:
    """Sides of a tile for images that are `most` long."""
    return SIDES if most >= SIDES[0] else (most,)


def _fits(tile: FusedTile, p: ConvBlockSizes, training: bool, target: Target) -> bool:
    memory = tile.shared(p, training) + tile.fixed(training)
    room = memory <= target.shared_per_block and tile.registers(p) <= THREAD_REGISTERS
    return tile.threads % 32 == 0 and room and tile.resident(p, training, target) > 0
