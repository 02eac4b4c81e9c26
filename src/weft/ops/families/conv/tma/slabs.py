"""Group the taps and channels of a gradient of weights: the slabs of a warpgroup."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.families.conv.tma.axes import Axis
from weft.ops.families.conv.tma.boxes import CHUNK, Directions

MOST_PLANES, MOST_GROUPS, MOST_SLABS = 8, 8, 4


class Grouping(NamedTuple):
    """The slabs that a warpgroup multiplies, and the planes that they are read from.

    first, second  slabs from one plane on, and from another
    channels       of x that a tile has
    apart          pixels from a slab to the next: (rows, columns); None: a plane
    planes         (y, x, channel)
    groups         planes, (rows, columns) of their shifts, taps, channels
    """

    first: int
    second: int
    channels: int
    apart: tuple[int, int] | None
    planes: tuple[tuple[int, int, int], ...]
    groups: tuple[
        tuple[tuple[int, int], tuple[tuple[int, int], ...], tuple[int, ...], tuple[int, ...]], ...
    ]


def grouping(directions: Directions, channels: int) -> Grouping | None:
    """Group taps of a row, or of a column for filters of one column; or channels for one tap."""
    g, h, w = directions.geometry, directions.h[0], directions.w[0]
    if g.taps == 1:
        count = min(MOST_SLABS, cdiv(channels, CHUNK))
        planes = tuple((h.readings[0].first, w.readings[0].first, i * CHUNK) for i in range(count))
        group = ((0, 0), ((0, 0), (0, 0)), (0,) * count, tuple(i * CHUNK for i in range(count)))
        return Grouping(count, 0, count * CHUNK, None, planes, (group,))
    along, other, by_rows = (w, h, True) if g.s > 1 else (h, w, False)
    counts = sorted((len(r.taps) for r in along.readings), reverse=True)
    spacing = _spacing(along)
    if len(counts) > 2 or sum(counts) > MOST_SLABS or spacing is None:
        return None
    rows = sum(len(r.taps) for r in other.readings)
    if rows > MOST_GROUPS or len(h.readings) * len(w.readings) > MOST_PLANES:
        return None
    readings = sorted(along.readings, key=lambda r: -len(r.taps))
    made = []
    for number, reading in enumerate(other.readings):
        for tap, shift in reading.taps:
            taps = [t for r in readings for t, _ in sorted(r.taps, key=lambda pair: pair[1])]
            numbers = tuple((tap * g.s + t) if by_rows else (t * g.s + tap) for t in taps)
            indices = [along.readings.index(r) for r in readings]
            indices += indices[:1] * (2 - len(indices))
            pair = [(number, i) if by_rows else (i, number) for i in indices]
            at = (shift, 0) if by_rows else (0, shift)
            places = (_plane(pair[0], w), _plane(pair[1], w))
            made.append((places, (at, at), numbers, (0,) * len(numbers)))
    planes = tuple((down.first, across.first, 0) for down in h.readings for across in w.readings)
    apart = (0, spacing) if by_rows else (spacing, 0)
    first, second = (*counts, 0)[:2]
    return Grouping(first, second, CHUNK, apart, planes, tuple(made))


def _plane(reading: tuple[int, int], w: Axis) -> int:
    return reading[0] * len(w.readings) + reading[1]


def _spacing(axis: Axis) -> int | None:
    """Positions between neighbouring taps of a plane, if these are the same everywhere."""
    gaps = set()
    for reading in axis.readings:
        shifts = sorted(shift for _, shift in reading.taps)
        gaps |= {b - a for a, b in itertools.pairwise(shifts)}
    return None if len(gaps) > 1 else next(iter(gaps), 1)
