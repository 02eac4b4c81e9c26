"""Cost model of convolutions by boxes: shapes of blocks and their modelled seconds.

The rates are those of an H200.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.model import BLOCK_RESERVED
from weft.ops.core.target import Target
from weft.ops.families.conv.tma.boxes import CHUNK, ROW, SLOT, TileBox

ROWS = 64
"""Channels of the target that a warpgroup has."""
PART = {1: 2 * 64 * ROW, 2: 2 * 32 * ROW}
"""Bytes through which a warpgroup stores its results, by the blocks of an SM."""
BARRIERS = 1024
"""Bytes of static shared memory; the alignment of what follows may cost as many."""
MOST_PLANES, MOST_STAGES = 4, 6


class Shape(NamedTuple):
    """The warpgroups of a block along channels and positions; blocks that share an SM.

    widest  positions of a warpgroup, at most: the registers of a thread at launch, 65,536 for all
            threads of an SM, hold the results of a product
    """

    channels: int
    positions: int
    resident: int
    widest: int

    @property
    def consumers(self) -> int:
        return self.channels * self.positions

    @property
    def threads(self) -> int:
        return 128 * self.consumers + 128

    @property
    def stage(self) -> int:
        """Bytes of the weights of a tap and 64 source channels."""
        return self.channels * ROWS * ROW

    def staging(self, width: int) -> int:
        return self.consumers * (PART[self.resident] + 4 * width)


SHAPES = (
    Shape(channels=1, positions=1, resident=2, widest=200),
    Shape(channels=2, positions=1, resident=2, widest=104),
    Shape(channels=2, positions=1, resident=1, widest=256),
    Shape(channels=1, positions=2, resident=1, widest=256),
)


def block_room(gpu: Target, resident: int) -> int:
    """Bytes of dynamic shared memory of a block, if an SM has so many."""
    room = min(gpu.shared_per_sm // resident - BLOCK_RESERVED, gpu.shared_per_block)
    return room - BARRIERS


class Rings(NamedTuple):
    """Slots of planes and of weights, and the bytes of shared memory of a block."""

    planes: int
    stages: int
    shared: int


def rings(shape: Shape, tile: TileBox, width: int, gpu: Target) -> Rings | None:
    """The rings that fit; None if none does."""
    room = block_room(gpu, shape.resident)
    fixed = SLOT + shape.staging(width)
    slot = tile.slot(width * shape.positions)
    for planes, stages in ((4, 4), (3, 4), (3, 3), (2, 4), (2, 3), (2, 2)):
        shared = fixed + planes * slot + stages * shape.stage
        if shared <= room:
            more = min(MOST_STAGES - stages, (room - shared) // shape.stage)
            return Rings(planes, stages + more, shared + more * shape.stage)
    return None


# ---- time --------------------------------------------------------------------------------------
class Rates(NamedTuple):
    """Constants of an SM.

    clock     cycles a second, with all tensor cores at work
    width     cycles of a product of 64 rows, a column and 16 of K
    reach     share of these cycles in which they are busy
    shared    bytes a cycle that products read from shared memory
    l2        bytes a cycle that arrive from the L2 cache
    step      cycles of a step beside its products, if one block has the SM
    start     seconds before the first and after the last product of a launch
    store     cycles for each position in which a warpgroup stores its results
    """

    clock: float
    width: float
    reach: float
    shared: float
    l2: float
    step: float
    start: float
    store: float


RATES = Rates(
    clock=1.6e9, width=0.5, reach=0.93, shared=120.0, l2=40.0, step=20.0, start=3e-6, store=8.0
)


class Load(NamedTuple):
    """The work of a tile: copies of planes, and products of taps, of all chunks of a phase."""

    planes: float
    taps: float


def seconds(shape: Shape, tile: TileBox, width: int, works: int, load: Load, gpu: Target) -> float:
    """Modelled seconds of a launch, of `works` tiles."""
    r = RATES
    groups = shape.consumers
    products = groups * CHUNK / 16
    math = products * width * r.width / r.reach + (r.step if shape.resident == 1 else 0)
    reads = products * (ROWS + width) * 32 / r.shared
    arrives = load.planes * tile.plane * ROW + load.taps * shape.stage
    one = max(load.taps * max(math, reads), arrives / r.l2)
    store = groups * width * r.store
    most = cdiv(works, gpu.sms)
    # Blocks that share an SM store while others multiply.
    busy = most * (one + (store if shape.resident == 1 else 0)) + store
    return r.start + busy / r.clock
