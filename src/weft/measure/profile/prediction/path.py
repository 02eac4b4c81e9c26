"""Adds up the pieces of code on the way of a block from its begin to its end."""

from __future__ import annotations

from weft.measure.profile.prediction import constants as c
from weft.values.profile import BULK, Profile

LOADING = 4
"""Warps that load for the others."""


class Path:
    """The time of the warps of a block; `way` is that of a block whose warps meet at barriers.

    Where they meet at barriers, all wait for those that have a piece of code to themselves. Warps
    that load for others work at the same time as these.
    """

    def __init__(self, warps: int, blocks: float, together: bool) -> None:
        self._warps, self._blocks, self._together = warps, blocks, together
        self._sum = self.way = 0.0

    def warps(self, count: float, once: bool) -> float:
        """The warps of a block that run a piece of code so often: all, unless it runs once."""
        return min(count / self._blocks, self._warps) if once else float(self._warps)

    def add(self, count: float, once: bool, clocks: float) -> None:
        """A piece of code that ran so often."""
        self._sum += count * clocks
        self.way += count / self._blocks / max(1.0, self.warps(count, once)) * clocks

    def clocks(self, fill: float) -> float:
        """The clocks of all warps; each block waits so long before it can begin."""
        all_warps = self._warps * self._blocks
        if self._together:
            return self.way * all_warps
        loading = LOADING if fill and self._warps > LOADING else 0
        return self._sum * self._warps / (self._warps - loading) + fill * all_warps


class OneBlock:
    """The way through code that only one block of each launch runs, such as the last to end.

    way  its clocks, with those of the warp that takes longest
    """

    def __init__(self, warps: int, launches: int) -> None:
        self._warps, self._launches = warps, launches
        self._inside = 0.0
        self.way = 0.0

    def takes(self, count: float, blocks: float, loop: bool) -> bool:
        """Decide on the next piece, which ran so often in so many blocks.

        A loop belongs to the code before it, whose warps run it.
        """
        if not loop:
            few = count <= self._warps * self._launches and count < blocks
            self._inside = count / self._launches if few and self._launches else 0.0
        return self._inside > 0

    def add(self, count: float, clocks: float) -> None:
        """A piece that this block alone ran so often."""
        self.way += count / self._launches / max(1.0, self._inside) * clocks


def fill_clocks(p: Profile, dram: float) -> float:
    """Clocks until the first bulk copy of a block has arrived, and the last has left."""
    far = [a for i in p.instructions for a in i.accesses if a.space == "global" and a.kind in BULK]
    loads = any(a.kind == "bulk load" for a in far)
    stores = any(a.kind != "bulk load" for a in far)
    load = c.BULK_CLOCKS + dram * (c.BULK_DRAM_CLOCKS - c.BULK_CLOCKS) + c.MAP_CLOCKS
    return load * loads + c.BULK_CLOCKS * stores
