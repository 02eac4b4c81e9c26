"""The rows of a timeline in which work of streams is drawn: no two bars of a row overlap."""

from __future__ import annotations

_ROUNDING = 1e-12


class Lanes:
    """The rows of each stream; branches of a graph take further rows."""

    def __init__(self) -> None:
        self._ends: dict[int, list[float]] = {}

    @staticmethod
    def name(stream: int) -> str:
        return f"stream {stream}" if stream else "default stream"

    def at(self, stream: int, start: float, end: float) -> str:
        """The first row of a stream that is free at this time."""
        ends = self._ends.setdefault(stream, [])
        free = (i for i, last in enumerate(ends) if last <= start + _ROUNDING)
        row = next(free, len(ends))
        ends[row : row + 1] = [end]
        return self.name(stream) + (f", branch {row + 1}" if row else "")
