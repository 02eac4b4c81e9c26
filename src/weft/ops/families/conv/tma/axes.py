"""Describe one direction of a pass by boxes: its positions, and the planes that its taps read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.families.conv.geometry import Geometry


class Reading(NamedTuple):
    """Taps that read one plane along an axis.

    first  source pixel that position 0 reads through the first of them
    taps   (number of the tap, positions from the first one)
    """

    first: int
    taps: tuple[tuple[int, int], ...]

    @property
    def shift(self) -> int:
        """Positions that the taps reach behind a tile."""
        return max((shift for _, shift in self.taps), default=0)


class Axis(NamedTuple):
    """One direction of a phase: position i reads the source pixels `i * step + offset` of its taps.

    positions
    size      pixels of the source
    out       target pixels from position to position, and the first one
    readings  of planes; none where no tap reads
    """

    positions: int
    size: int
    step: int
    out: tuple[int, int]
    readings: tuple[Reading, ...]

    @property
    def shift(self) -> int:
        return max((r.shift for r in self.readings), default=0)


class Pitch(NamedTuple):
    """The pixels of a box along an axis, from which rows and images of a plane follow.

    Where a tile has all positions, zeros before the first pixel follow the last one of the row or
    image before: these need none of their own.
    """

    size: int
    shared: bool


def axes(g: Geometry, back: bool, along: int) -> Iterator[Axis]:
    """The phases of a pass along rows (0) or columns (1)."""
    taps, stride = (g.r, g.s)[along], g.stride[along]
    pad, dilation = g.pad[along], g.dilation[along]
    x, y = ((g.h, g.p), (g.w, g.q))[along]
    if not back:
        yield _axis(y, x, stride, (1, 0), [(t, t * dilation - pad) for t in range(taps)])
        return
    for phase in range(1 if g.sparse else stride):
        # Pixel i * stride + phase of dx receives tap t from this pixel of dy, where it is whole.
        reads = [(t, phase + pad - t * dilation) for t in range(taps)]
        whole = [(t, at // stride) for t, at in reads if at % stride == 0]
        yield _axis(cdiv(x - phase, stride), y, 1, (stride, phase), whole)


def _axis(
    count: int, size: int, step: int, out: tuple[int, int], reads: list[tuple[int, int]]
) -> Axis:
    """An axis; taps whose offsets differ by no multiple of the step read planes of their own."""
    planes: dict[int, list[tuple[int, int]]] = {}
    for tap, offset in reads:
        planes.setdefault(offset % step, []).append((tap, offset))
    readings = []
    for taps in planes.values():
        first = min(offset for _, offset in taps)
        readings.append(Reading(first, tuple((t, (offset - first) // step) for t, offset in taps)))
    return Axis(count, size, step, out, tuple(readings))


def pitch(phases: list[Axis], tile: int) -> Pitch:
    """The pixels of a box for so many positions of every phase."""
    whole = tile + max(axis.shift for axis in phases)
    axis = phases[0]
    if len(phases) > 1 or axis.step > 1 or tile < axis.positions or not axis.readings:
        return Pitch(whole, False)
    before = max(0, -axis.readings[0].first)
    least = max(before + axis.size, whole - before)
    return Pitch(min(whole, least), least < whole)
