"""Divide the target of a pass into boxes of positions, and describe them to the kernels."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from weft.device.tensor_map_limits import MAX_BOX, MAX_STEP
from weft.kernels import cdiv
from weft.kernels.structs import Int, LongLong, Short, Struct, array
from weft.ops.families.conv.geometry import Geometry
from weft.ops.families.conv.tma.axes import Axis, axes, pitch

CHUNK = 64
"""Source channels of a plane: 128 bytes of a pixel."""
ROW = 128
"""Bytes of a pixel in a plane."""
MOST_TAPS, MOST_PLANES, MOST_PHASES = 32, 16, 9
"""Sizes of the tables of a launch, whose parameters have to fit into 1,024 bytes: calls are made
in C++ then."""
MOST_ACROSS = 8
"""Tiles beside each other that are considered: more have too much halo."""
SLOT = 1024
"""Bytes that planes begin at multiples of."""


# ---- what kernels take -------------------------------------------------------------------------
@dataclass(frozen=True)
class Tap(Struct):
    """A tap of a plane."""

    shift: Annotated[Short, "rows of the plane from a position to the pixel that it reads"]
    number: Annotated[Short, "in the weights"]


@dataclass(frozen=True)
class Plane(Struct):
    """A copy of source pixels, and the taps that read them."""

    x: Annotated[Short, "of its first pixel, relative to that of the tile"]
    y: Short
    first_tap: Short
    taps: Short


@dataclass(frozen=True)
class Phase(Struct):
    """Positions that the same taps compute."""

    first_plane: Short
    planes: Short
    out_x: Annotated[Short, "of the first position, in the target"]
    out_y: Short


@dataclass(frozen=True)
class Boxes(Struct):
    """The problem of a launch: see tma.cuh."""

    tiles_c: Annotated[Int, "of channels"]
    tiles_w: Int
    tiles_h: Int
    tiles_n: Int
    tile_w: Annotated[Int, "positions of a tile"]
    tile_h: Int
    tile_n: Int
    row: Annotated[Int, "rows of a plane from a row of pixels to the next"]
    image: Annotated[Int, "and from an image to the next"]
    step_w: Annotated[Int, "source pixels from a position to the next"]
    step_h: Int
    out_w: Annotated[Int, "target pixels from a position to the next"]
    out_h: Int
    target_n: Int
    target_c: Int
    target_h: Int
    target_w: Int
    chunks: Annotated[Int, "of 64 source channels"]
    phases: Int
    plane_bytes: Annotated[Int, "that a copy brings"]
    slot_bytes: Annotated[Int, "that it has in shared memory"]
    zeros: Annotated[Int, "rows behind it that stay 0"]
    target_channel: Annotated[Int, "strides of the target, in elements"]
    target_row: Int
    target_column: Int
    target_image: LongLong
    tap: Annotated[tuple[Tap, ...], array(Tap, MOST_TAPS)]
    plane: Annotated[tuple[Plane, ...], array(Plane, MOST_PLANES)]
    phase: Annotated[tuple[Phase, ...], array(Phase, MOST_PHASES)]


# ---- tiles -------------------------------------------------------------------------------------
class TileBox(NamedTuple):
    """A tile of positions and the planes that it needs.

    row, rows  pixels of a plane along both axes
    reach      rows of a plane that taps reach behind a position, at most
    shared     zeros between rows, or images, belong to both
    """

    w: int
    h: int
    n: int
    row: int
    rows: int
    reach: int
    shared: bool

    @property
    def image(self) -> int:
        return self.row * self.rows

    @property
    def positions(self) -> int:
        """From the first position to the last one, those between rows as well."""
        return (self.n - 1) * self.image + (self.h - 1) * self.row + self.w

    @property
    def plane(self) -> int:
        """Rows of a plane."""
        return self.n * self.image

    @property
    def zeros(self) -> int:
        """Rows behind a plane that positions read."""
        return max(0, self.positions + self.reach - self.plane) if self.shared else 0

    def slot(self, positions: int) -> int:
        """Bytes of a plane in shared memory, if results have so many positions."""
        rows = max(self.plane + self.zeros, positions + self.reach)
        return cdiv(rows * ROW, SLOT) * SLOT


class PhaseAxes(NamedTuple):
    """The directions of a phase."""

    h: Axis
    w: Axis

    @property
    def taps(self) -> int:
        return _taps(self.h) * _taps(self.w)

    @property
    def planes(self) -> int:
        return len(self.h.readings) * len(self.w.readings)


def _taps(axis: Axis) -> int:
    return sum(len(r.taps) for r in axis.readings)


class Directions:
    """The axes of a pass, and its phases: those with the most taps first."""

    def __init__(self, g: Geometry, back: bool) -> None:
        self.geometry, self.back = g, back
        self.h, self.w = list(axes(g, back, 0)), list(axes(g, back, 1))
        every = [PhaseAxes(h, w) for h in self.h for w in self.w]
        self.phases = sorted(every, key=lambda phase: -phase.taps)

    @property
    def planes(self) -> int:
        return sum(phase.planes for phase in self.phases)

    def fits(self) -> bool:
        """True if the kernels' tables have room for all taps, and tensor maps for the strides."""
        steps = max(self.h[0].step, self.w[0].step) <= MAX_STEP
        tables = self.planes <= MOST_PLANES and len(self.phases) <= MOST_PHASES
        return steps and tables and self._taps()

    def _taps(self) -> bool:
        return 0 < sum(phase.taps for phase in self.phases) <= MOST_TAPS

    def tiles(self, most: int) -> Iterator[TileBox]:
        """Tiles of at most so many positions, with as little waste as their number allows."""
        high, wide = self.h[0].positions, self.w[0].positions
        for across in range(1, min(wide, MOST_ACROSS) + 1):
            w = cdiv(wide, across)
            if across > 1 and w == cdiv(wide, across - 1):
                continue
            if w < 8 and across > 1:
                return
            for h in self._heights(w, high, most):
                yield from self._images(w, h, most)

    def _heights(self, w: int, high: int, most: int) -> Iterator[int]:
        row = pitch(self.w, w).size
        seen = 0
        for down in range(1, high + 1):
            h = cdiv(high, down)
            if h != seen and (h - 1) * row + w <= most:
                seen = h
                yield h
                if h * 4 < most // row:  # smaller ones are no better
                    return

    def _images(self, w: int, h: int, most: int) -> Iterator[TileBox]:
        one = self.tile(w, h, 1)
        if not self._copies(one):
            return
        yield one
        if w == self.w[0].positions and h == self.h[0].positions:
            count = min(self.geometry.n, MAX_BOX, 1 + (most - one.positions) // one.image)
            for n in range(2, count + 1):
                yield self.tile(w, h, n)

    def tile(self, w: int, h: int, n: int) -> TileBox:
        row, rows = pitch(self.w, w), pitch(self.h, h)
        reach = max(a.shift for a in self.h) * row.size + max(a.shift for a in self.w)
        return TileBox(w, h, n, row.size, rows.size, reach, row.shared or rows.shared)

    def _copies(self, tile: TileBox) -> bool:
        """True if a copy can bring a plane."""
        w, h = self.box(tile)
        return max(w, h) <= MAX_BOX

    def box(self, tile: TileBox) -> tuple[int, int]:
        """Pixels of the source that a plane covers, along rows and columns."""
        return (tile.row - 1) * self.w[0].step + 1, (tile.rows - 1) * self.h[0].step + 1

    def works(self, tile: TileBox) -> tuple[int, int, int]:
        """Tiles of a phase along columns, rows and images."""
        w, h = self.w[0].positions, self.h[0].positions
        return cdiv(w, tile.w), cdiv(h, tile.h), cdiv(self.geometry.n, tile.n)

    # ---- tables ----
    @functools.cached_property
    def tables(self) -> tuple[tuple[Phase, ...], list[tuple[int, int, list[tuple[int, int, int]]]]]:
        """(phases, planes: x, y and their taps as (rows, columns, number))."""
        phases: list[Phase] = []
        planes: list[tuple[int, int, list[tuple[int, int, int]]]] = []
        for phase in self.phases:
            first = len(planes)
            for down in phase.h.readings:
                for across in phase.w.readings:
                    taps = [
                        (i, j, r * self.geometry.s + s)
                        for r, i in down.taps
                        for s, j in across.taps
                    ]
                    planes.append((across.first, down.first, taps))
            out = (phase.w.out[1], phase.h.out[1])
            phases.append(Phase(first, len(planes) - first, *out))
        return tuple(phases), planes

    def problem(
        self, tile: TileBox, tiles_c: int, positions: int, chunks: int,
        target: tuple[int, int, int, int], strides: tuple[int, int, int, int],
    ) -> bytes:  # fmt: skip
        """The struct of a launch.

        positions  that results of a tile have, at least those of the tile
        target     its shape [n, c, h, w], and its strides
        """
        phases, planes = self.tables
        taps: list[Tap] = []
        made: list[Plane] = []
        for x, y, reads in planes:
            made.append(Plane(x, y, len(taps), len(reads)))
            taps += [Tap(i * tile.row + j, number) for i, j, number in reads]
        batch, channel, row, column = strides
        n, c, h, w = target
        return Boxes(
            tiles_c, *self.works(tile), tile.w, tile.h, tile.n, tile.row, tile.image,
            self.w[0].step, self.h[0].step, self.w[0].out[0], self.h[0].out[0], n, c, h, w,
            chunks, len(phases), tile.plane * ROW, tile.slot(positions), tile.zeros,
            channel, row, column, batch,
            (*taps, *[Tap(0, 0)] * (MOST_TAPS - len(taps))),
            (*made, *[Plane(0, 0, 0, 0)] * (MOST_PLANES - len(made))),
            (*phases, *[Phase(0, 0, 0, 0)] * (MOST_PHASES - len(phases))),
        ).pack()  # fmt: skip
