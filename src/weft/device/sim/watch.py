"""Watches a running launch: is anybody still getting on?

Warps that spin yield, and a yield writes their registers to their frame. When for a while no block
ends and the frames only ever show the few same pictures, every warp is waiting for something that
none of them will do: a deadlock. A loop that computes changes its registers and is left alone.
"""

from __future__ import annotations

import time

from weft.device.sim.arena import Arena
from weft.device.sim.layout import Slot, Worker

PATIENCE = 2.0
"""Seconds of standstill before it is called a deadlock."""
PICTURES = 24


class Watch:
    """One per launch; asked now and then by the thread that waits."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.pause = 0.05
        self.expired = False
        self._progress = -1
        self._since = time.monotonic()
        self._yields = 0
        self._seen: set[int] = set()
        self._deadlocked = False

    @property
    def verdict(self) -> str:
        return "time" if self.expired else "deadlock" if self._deadlocked else ""

    def stuck(self) -> bool:
        """Has the launch stood still long enough?"""
        if not self.arena.facts.waits:
            return False
        workers = self.arena.workers
        progress = sum(w[Worker.PROGRESS] for w in workers)
        yields = sum(w[Worker.YIELDS] for w in workers)
        self._seen.add(self._picture())
        if progress != self._progress or yields == self._yields or len(self._seen) > PICTURES:
            self._progress, self._yields, self._seen = progress, yields, set()
            self._since = time.monotonic()
            return False
        self._deadlocked = time.monotonic() - self._since > PATIENCE
        return self._deadlocked

    def _picture(self) -> int:
        arena = self.arena
        parts = []
        for w in range(len(arena.workers)):
            for i in range(arena.slots):
                slot = arena.slot(w, i)
                if slot[0]:
                    parts.append(slot[Slot.FRAMES // 4 :].tobytes())
        return hash(tuple(parts))
