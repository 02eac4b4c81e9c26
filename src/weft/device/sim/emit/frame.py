"""The words of a warp's frame that its code reads and writes."""

from __future__ import annotations

from weft.device.sim.protocols import Located
from weft.ir import Val


class FrameWords:
    """32-bit words of the frame, by their byte offset: `layout.Frame` and what follows it."""

    def __init__(self, e: Located) -> None:
        self.e = e

    def load(self, at: int) -> Val:
        return self.e.b.load("i32", 0, self.e.b.at(self.e.frame, at))

    def store(self, at: int, v: Val) -> None:
        self.e.b.store(v, self.e.b.at(self.e.frame, at))
