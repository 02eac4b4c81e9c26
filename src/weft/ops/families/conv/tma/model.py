"""Cost model of convolutions by boxes: shapes of blocks and their modelled seconds.

The rates are those of an H200.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.model import BLOCK_RESERVED
from weft.ops.core.target import Target
from weft.ops.families.conv.tma.boxes import CHUNK, ROW, SLOT, TileBox
from weft.ops.families.matmul.pipelined_model import MOST_SHARES, SHARE, SPLIT

ROWS = 64
"""Channels of the target that a warpgroup has."""
PART = {1: 2 * 64 * ROW, 2: 2 * 32 * ROW}
"""Bytes through which a warpgroup stores its results, by the blocks of an SM."""
BARRIERS = 1024
"""Bytes of static shared memory; the alignment of what follows may cost as many."""
MOST_PLANES, MOST_STAGES = 4, 8


class WarpgroupShape(NamedTuple):
    """The warpgroups of a block along channels and positions; blocks that share an SM.

    widest  positions of a warpgroup, at most: the registers of a thread at launch, 65,536 for all
            threads of an SM, hold the results of a product
    splits  blocks of a cluster that share the source channels of a tile
    """

    channels: int
    positions: int
    resident: int
    widest: int
    splits: int = 1

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
        """Bytes through which results are stored, and of shares that other blocks give."""
        shares = self.shares(width)
        beside = shares if shares <= MOST_SHARES else 0
        return self.consumers * (PART[self.resident] + 4 * width // self.splits) + beside

    def shares(self, width: int) -> int:
        """Bytes that other blocks of a cluster give; many replace the rings: see shares.cuh."""
        return 4 * ROWS * self.consumers * width * (self.splits - 1) // self.splits

    def width(self, positions: int) -> int:
        """Columns of a warpgroup's results: whole shares."""
        unit = 8 * self.splits
        return cdiv(cdiv(positions, self.positions), unit) * unit


SHAPES = (
    WarpgroupShape(channels=1, positions=1, resident=2, widest=200),
    WarpgroupShape(channels=2, positions=1, resident=2, widest=104),
    WarpgroupShape(channels=2, positions=1, resident=1, widest=256),
    WarpgroupShape(channels=1, positions=2, resident=1, widest=256),
)


def block_room(gpu: Target, resident: int) -> int:
    """Bytes of dynamic shared memory of a block, if an SM has so many."""
    room = min(gpu.shared_per_sm // resident - BLOCK_RESERVED, gpu.shared_per_block)
    return room - BARRIERS


class Load(NamedTuple):
    """The work of a tile: copies of planes, and products of taps, of all chunks of a phase."""

    planes: float
    taps: float


class Rings(NamedTuple):
    """Slots of planes and of weights, and the bytes of shared memory of a block."""

    planes: int
    stages: int
    shared: int


def rings(
    shape: WarpgroupShape, tile: TileBox, width: int, load: Load, gpu: Target
) -> Rings | None:
    """The rings that fit: those in which copies are the longest ahead. None if none fits."""
    room = block_room(gpu, shape.resident) - SLOT - shape.staging(width)
    slot = tile.slot(width * shape.positions)
    made: list[tuple[float, Rings]] = []
    for planes in range(2, MOST_PLANES + 1):
        stages = min(MOST_STAGES, (room - planes * slot) // shape.stage)
        if stages >= 2 and planes * slot + stages * shape.stage >= shape.shares(width):
            shared = SLOT + shape.staging(width) + planes * slot + stages * shape.stage
            ahead = min((planes - 1) * load.taps / load.planes, stages - 1)
            made.append((ahead, Rings(planes, stages, shared)))
    return max(made, key=lambda pair: (pair[0], pair[1].stages))[1] if made else None


# ---- time --------------------------------------------------------------------------------------
class Rates(NamedTuple):
    """Constants of an SM of an H200, in cycles, fitted to benchmarks/records/conv_boxes.jsonl.

    clock   cycles a second
    width   of a product of 64 rows, a column and 16 of K
    reach   share of these in which tensor cores are busy
    shared  bytes a cycle that products read from shared memory
    l2      bytes a cycle that arrive from the L2 cache
    step    of a step beside its products
    least   of a step of a block, whose products are few
    start   seconds before the first and after the last product of a launch
    store   of the results of a tile, and for each of its positions
    """

    clock: float
    width: float
    reach: float
    shared: float
    l2: float
    step: float
    least: float
    start: float
    store: tuple[float, float]


RATES = Rates(
    clock=1.755e9, width=0.5, reach=0.97, shared=120.0, l2=32.0, step=40.0, least=440.0,
    start=3.8e-6, store=(600.0, 12.8),
)  # fmt: skip
SPLITS = (1, 2, 4, 8)
"""Blocks of a cluster that share the source channels of a tile."""
SHARING = 1.15
"""Factor on the time of blocks that share an SM: they compete for what arrives."""


def seconds(
    shape: WarpgroupShape, tile: TileBox, width: int, works: int, load: Load, gpu: Target
) -> float:
    """Modelled seconds of a launch, of `works` tiles."""
    r = RATES
    # Blocks that share an SM share its tensor cores and what arrives.
    sharing = shape.resident if works > gpu.sms else 1
    products = sharing * shape.consumers * CHUNK / 16
    reads = products * (ROWS + width) * 32 / r.shared
    step = max(products * width * r.width / r.reach + r.step, reads, r.least)
    arrives = sharing * (load.planes * tile.plane * ROW + load.taps * shape.stage)
    one = max(load.taps * step, arrives / r.l2) + r.store[0] + r.store[1] * width
    one *= SHARING if sharing > 1 else 1.0
    joining = SPLIT + SHARE * shape.shares(width) if shape.splits > 1 else 0.0
    return r.start + cdiv(works, sharing * gpu.sms) * one / r.clock + joining
