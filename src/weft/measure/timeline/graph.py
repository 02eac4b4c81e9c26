"""A launch of a CUDA graph: its nodes begin when those that they wait for have ended."""

from __future__ import annotations

from collections.abc import Sequence

from weft.measure.timeline.engines import Moment


class GraphRun:
    """One launch; `ready` is the earliest begin of the next work."""

    def __init__(self, number: int, begin: Moment) -> None:
        self.number, self.begin = number, begin
        self.ready = self.end = begin
        self._ends: dict[int, Moment] = {}
        self._node = -1

    def node(self, index: int, after: Sequence[int]) -> None:
        """Begin a node that waits for others."""
        self._node = index
        self.ready = max([self.begin, *(self._ends.get(n, self.begin) for n in after)])
        self._ends[index] = self.ready

    def ran(self, end: Moment) -> None:
        """End a piece of work; more work of the same node follows it."""
        self.ready = self._ends[self._node] = end
        self.end = max(self.end, end)
