"""Copies of interleaved tensors (NC/8HWC8, NC/16HWC16), as an H200 makes them.

The elements of dimension 0 of such a map, W, are slices of 16 or 32 bytes of channels; H and D
follow, then the slices of channels, then N. A copy takes one slice of channels, whatever its box
says. Its coordinate counts slices.
"""

from __future__ import annotations

from weft.device.sim.memory.tensors.boxes import BoxPlan, Lines
from weft.device.tensor_map_layout import INTERLEAVES, ControlBits
from weft.ir import Val


class SlicedPlan(BoxPlan):
    """A line is a slice."""

    def lines(self) -> Lines:
        b, channels = self.b, self.rank - 2
        at = self.coordinate(channels).sext("i64")
        line, nothing = self._slice(), b.integer("i32", 0)
        high = at.ult(self.dim(channels)).select(line, nothing)
        start = self.base + at * self.stride(channels)
        count = self._product([self.count(i) for i, _ in self.axes()])
        # A swizzle moves slices within its span.
        footprint = (count * line + (self.span - 1)) & (0 - self.span)
        return Lines(line, line, nothing, high, start, count, footprint)

    def axes(self) -> list[tuple[int, Val]]:
        inner = (0, self._slice().zext("i64"))
        outer = [i for i in range(1, self.rank) if i != self.rank - 2]
        return [inner, *((i, self.stride(i)) for i in outer)]

    def _slice(self) -> Val:
        """Bytes of a slice."""
        slices = self.b.table("tensor_slices", "i32", INTERLEAVES)
        number = self._bits(ControlBits.INTERLEAVE, 2).zext("i64")
        return self.b.load("i32", 0, self.b.at(slices, number << 2), 4)
