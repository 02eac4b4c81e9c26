"""The warp that runs: its number and its memory, and the words of its frame."""

from __future__ import annotations

from typing import NamedTuple

from weft.device.sim.protocols import Located
from weft.ir import Val
from weft.records import dataclass


@dataclass(slots=True)
class WarpPlace:
    """The number of the warp, its frame, and local memory of its lane 0.

    Values where a call of the code runs one warp; the addresses of variables where it goes on with
    the next one (`lockstep`).
    """

    warp: Val
    frame: Val
    local: Val
    varies: bool = False


class FrameLayout(NamedTuple):
    """The frames of a block: their number and size, and the offset of the rows of waiting lanes."""

    warps: int
    nbytes: int
    waits_at: int
    sites: int
    barriers: bool
    """True if the block has barriers; one at which warps only arrive has a row in the slot, too."""


class FrameWords:
    """32-bit words of the frame, by their byte offset: `layout.FrameFields` and what follows it."""

    def __init__(self, e: Located) -> None:
        self.e = e

    def load(self, at: int) -> Val:
        return self.e.b.load("i32", 0, self.e.b.at(self.e.frame, at))

    def store(self, at: int, v: Val) -> None:
        self.e.b.store(v, self.e.b.at(self.e.frame, at))
