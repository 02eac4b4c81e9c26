"""The memory in which a block's events are recorded, shared by compiled code and Python.

Events are those of the whole cluster of the block that is watched. Addresses are those of PTX:
`rank << 24 | offset`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum, auto
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WARPS = 32
"""The most warps of a block."""
RANKS = 16
"""The most blocks of a cluster."""
MOST = 1 << 15
"""The events that are kept: the first ones."""


class EventKind(IntEnum):
    """The kinds of events; `first` and `second` are the numbers of each.

    INIT         an mbarrier is initialised or invalidated: its address
    COPY         a bulk copy into shared memory: its target, its bytes; the mbarrier it reports to
    PIECES       `cp.async` into shared memory: the first byte, the bytes up to the last one, and
                 those that it copies in place of an mbarrier
    ARRIVE       an arrival at an mbarrier
    AFTER        an arrival at an mbarrier when the PIECES of the warp so far are there
    PASS         a test of an mbarrier has found that its phase has ended
    READ, WRITE  of shared memory by lanes: the first byte, the bytes up to the last one
    PRODUCT      a product of a warpgroup: the offsets of A (or -1) and B
    COMMIT, WAIT of groups of products
    BARRIER      the warp is at a barrier of its block: its number, 1 if it waits there
    RELEASE      the barrier of a block has completed: its number
    CLUSTER_ARRIVE, CLUSTER_PASS  the barrier of the cluster
    """

    INIT = auto()
    COPY = auto()
    PIECES = auto()
    ARRIVE = auto()
    AFTER = auto()
    PASS = auto()
    READ = auto()
    WRITE = auto()
    PRODUCT = auto()
    COMMIT = auto()
    WAIT = auto()
    BARRIER = auto()
    RELEASE = auto()
    CLUSTER_ARRIVE = auto()
    CLUSTER_PASS = auto()


class EventFields:
    """A header, the instructions that each warp has executed so far, and the events.

    CLUSTER  x, y and z of the cluster that is watched
    """

    COUNT, CLUSTER = 0, 8
    STEPS = 32
    RECORDS = STEPS + 8 * RANKS * WARPS
    KIND, INSTRUCTION, WHO, STEP, FIRST, SECOND, BARRIER, PHASE = range(0, 64, 8)
    """WHO: `rank * WARPS + warp`. PHASE: the three highest bits of the mbarrier's word."""
    SIZE = 64
    BYTES = RECORDS + MOST * SIZE


class StageEvent(NamedTuple):
    """One event; `step` counts the instructions of its warp, without tests in vain."""

    kind: EventKind
    instruction: int
    rank: int
    warp: int
    step: int
    first: int
    second: int
    barrier: int
    phase: int


class Recorded:
    """The memory of one launch."""

    def __init__(self, block: int, grid: Sequence[int], cluster: Sequence[int]) -> None:
        self._words: NDArray[np.int64] = np.zeros(EventFields.BYTES // 8, np.int64)
        x, y = block % grid[0], block // grid[0] % grid[1]
        place = (x, y, block // (grid[0] * grid[1]))
        at = EventFields.CLUSTER // 8
        self._words[at : at + 3] = [p // c for p, c in zip(place, cluster, strict=True)]
        inside = [p % c for p, c in zip(place, cluster, strict=True)]
        self.block = block
        self.rank = (inside[2] * cluster[1] + inside[1]) * cluster[0] + inside[0]

    @property
    def address(self) -> int:
        return int(self._words.ctypes.data)

    @property
    def whole(self) -> bool:
        """True if all events were kept."""
        return int(self._words[EventFields.COUNT // 8]) <= MOST

    def events(self) -> Iterator[StageEvent]:
        """The events, in the order in which the simulator ran them."""
        count = min(MOST, int(self._words[EventFields.COUNT // 8]))
        start, size = EventFields.RECORDS // 8, EventFields.SIZE // 8
        rows = self._words[start : start + count * size].reshape(count, size).tolist()
        for kind, instruction, who, step, first, second, barrier, phase in rows:
            rank, warp = divmod(who, WARPS)
            yield StageEvent(
                EventKind(kind), instruction, rank, warp, step, first, second, barrier, phase
            )
